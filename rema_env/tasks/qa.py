r"""Two agents answer a question in a few words: one says what has to be found out, the other finds it.

| | |
|---|---|
| Agents | `meta_0`, `reasoner_0` (processes mrp and vrp: `reasoner_0` alone) |
| Action | a `str`, or a `Message` that knows how it ended: `FreeText` |
| Observation | `{"messages": the agent's chat, "turn": turns said so far}`: `Dict(Chat, Discrete)` |
| Reward | for both, where the dialogue finished: how well the reasoner's last `\boxed{}` matches the golden answer |
| Terminated | `finished`: the reasoner has answered a message that ends with `[FINISH]`; in one round, once it spoke |
| Truncated | `round_limit`, `message_limit`, `context_full`, `aborted` |
| Infos | at the end: ending, outcome, score (raw grade), extracted, terms, dropped |
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Unpack

from rema_env.dialogue import DialogueEnv, Grader, Settings
from rema_env.factory import EnvFactory, register
from rema_env.problems import Problems
from rema_env.problems.ranks import ranks
from rema_env.process import Process, process_named
from rema_env.roles import QA_PROMPTS
from rema_env.tasks.parts import given_or_read, read_for
from rema_env.tasks.parts import raw_env as raw_dialogue_env


def raw_env(
    problems: Problems | None = None,
    *,
    dataset: str | Path | Problems | None = None,
    question_column: str | None = None,
    answer_column: str | None = None,
    streaming: bool = False,
    process: str | Process = "multi_turn",
    grader: str | Grader = "exact",
    **settings: Unpack[Settings],
) -> DialogueEnv:
    """The bare environment.

    Args:
        problems: any source; default: procedural questions whose answer is a name.
        dataset, question_column, answer_column, streaming, process: as of `math_v0`.
        grader: "exact" (match of the words, 0 or 1), "token_f1" (in [0, 1]), or as `grade` of `dialogue_env`.
        **settings: as of `math_v0`.
    """
    reading = {"question_column": question_column, "answer_column": answer_column, "streaming": streaming}
    problems = given_or_read("qa_v0", problems, dataset, partial(read_for, grader), **reading)
    rules = process_named(process)
    prompts = QA_PROMPTS.get(rules.name, {})
    return raw_dialogue_env(
        rules, ranks() if problems is None else problems, grader, default_prompts=prompts, name="qa_v0", **settings
    )


qa_v0 = EnvFactory("qa_v0", __name__, raw_env)
env, parallel_env = qa_v0.env, qa_v0.parallel_env
register(qa_v0)
