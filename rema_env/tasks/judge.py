"""Two agents judge which of two answers is better: one plans the evaluation, the other carries it out and decides.

| | |
|---|---|
| Agents | `meta_0`, who sees only the question; `reasoner_0`, who sees both answers (mrp and vrp: `reasoner_0` alone) |
| Action | a `str`, or a `Message` that knows how it ended: `FreeText` |
| Observation | `{"messages": the agent's chat, "turn": turns said so far}`: `Dict(Chat, Discrete)` |
| Reward | 1 for both where the dialogue finished and the reasoner's last message ends with the right verdict |
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
from rema_env.problems.named import load_pairs_named
from rema_env.problems.pairs import Orders, arithmetic_pairs
from rema_env.process import META, Process, process_named
from rema_env.roles import JUDGE_PROMPTS, VERDICT
from rema_env.tasks.parts import given_or_read
from rema_env.tasks.parts import raw_env as raw_dialogue_env
from rema_env.transcript import Problem


def shown(problem: Problem, role: str) -> str:
    """The meta-thinker is shown the question alone, the judge the two answers with it.

    Raises:
        ValueError: for a problem that is no pair.
    """
    a, b = problem.extra.get("answer_a"), problem.extra.get("answer_b")
    if a is None or b is None:
        raise ValueError(f"problem {problem.id!r:.60} is no pair: extra needs answer_a and answer_b to be judged")
    if role == META:
        return problem.question
    return f"{problem.question}\n\nAnswer A:\n{a}\n\nAnswer B:\n{b}"


def raw_env(
    problems: Problems | None = None,
    *,
    dataset: str | Path | Problems | None = None,
    orders: Orders = "both",
    streaming: bool = False,
    process: str | Process = "multi_turn",
    grader: str | Grader = "choice",
    **settings: Unpack[Settings],
) -> DialogueEnv:
    """The bare environment.

    Args:
        problems: any source of problems with `extra["answer_a"]` and `extra["answer_b"]`; default: procedural pairs.
        dataset: instead of `problems`: a known set of pairs (`rewardbench`), or a file or a name on the hub in the
            format of RewardBench or JudgeBench, or the family `arithmetic-pairs`.
        orders: which orders of a dataset's pairs there are: both, given, shuffled; see `load_pairs`.
        streaming: as of `math_v0`.
        process: multi_turn, single_turn, mrp, vrp, or a `Process`.
        grader: as `grade` of `dialogue_env`.
        **settings: as of `math_v0`.
    """
    read = partial(load_pairs_named, orders=orders)
    problems = given_or_read("judge_v0", problems, dataset, read, streaming=streaming)
    rules = process_named(process, shown)
    return raw_dialogue_env(
        rules,
        arithmetic_pairs() if problems is None else problems,
        grader,
        default_prompts=JUDGE_PROMPTS.get(rules.name, {}),
        tag=VERDICT,
        name="judge_v0",
        **settings,
    )


judge_v0 = EnvFactory("judge_v0", __name__, raw_env)
env, parallel_env = judge_v0.env, judge_v0.parallel_env
register(judge_v0)
