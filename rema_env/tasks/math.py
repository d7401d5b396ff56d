r"""Two agents solve a math problem: one thinks about how, the other works it out.

| | |
|---|---|
| Agents | `meta_0`, `reasoner_0` (processes mrp and vrp: `reasoner_0` alone) |
| Action | a `str`, or a `Message` that knows how it ended: `FreeText` |
| Observation | `{"messages": the agent's chat, "turn": turns said so far}`: `Dict(Chat, Discrete)` |
| Reward | 1 for both where the dialogue finished and the reasoner's last `\boxed{}` equals the golden answer |
| Terminated | `finished`: the reasoner has answered a message that ends with `[FINISH]`; in one round, once it spoke |
| Truncated | `round_limit`, `message_limit`, `context_full`, `invalid_action`, `aborted` |
| Infos | at the end: ending, outcome, score (raw grade), extracted, terms, dropped |
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal, Unpack

from rema_env.actions import CLOSING, PROMPT, action_terms, with_json_actions
from rema_env.dialogue import DialogueEnv, Grader, Settings
from rema_env.factory import EnvFactory, register
from rema_env.problems import Problems
from rema_env.process import META, Process, process_named
from rema_env.rewards import ANSWER
from rema_env.roles import MATH_PROMPTS
from rema_env.tasks.parts import given_or_read, read_for
from rema_env.tasks.parts import raw_env as raw_dialogue_env
from rema_env.terms import as_rewards


def raw_env(
    problems: Problems | None = None,
    *,
    dataset: str | Path | Problems | None = None,
    question_column: str | None = None,
    answer_column: str | None = None,
    streaming: bool = False,
    process: str | Process = "multi_turn",
    grader: str | Grader = "math",
    actions: Literal["text", "json"] = "text",
    invalid_action: float | Literal["end"] = "end",
    **settings: Unpack[Settings],
) -> DialogueEnv:
    """The bare environment.

    Args:
        problems: any source; default: procedural arithmetic.
        dataset: instead of `problems`: a parquet, JSON Lines or CSV file, a known set (`math500`), a procedural family
            with its level (`chains-4`), or a name on the hub (`owner/set@revision:split`).
        question_column, answer_column: its columns, where they have no usual name.
        streaming: read it as it is drawn from and hold no more than a buffer; see `rema_env.problems.streamed`.
        process: multi_turn, single_turn, mrp, vrp, or a `Process`.
        grader: as `grade` of `dialogue_env`.
        actions: the meta-thinker speaks freely, or chooses DECOMPOSE, REWRITE or EMPTY in JSON (`rema_env.actions`).
        invalid_action: what a message that is no JSON action leads to: the ending `invalid_action`, or a penalty.
        **settings: `system_prompts`, `max_rounds` (30; also `max_cycles`), `on_cut`, `unfinished_reward`, `rewards`,
            `render_mode`: see `DialogueEnv`.
    """
    reading = {"question_column": question_column, "answer_column": answer_column, "streaming": streaming}
    problems = given_or_read("math_v0", problems, dataset, partial(read_for, grader), **reading)
    if actions not in ("text", "json"):
        raise ValueError(f"actions must be text or json, got {actions!r}")
    if actions == "text" and invalid_action != "end":
        raise ValueError(f"invalid_action={invalid_action!r} is about JSON actions: give actions='json' with it")
    rules = process_named(process)
    prompts = dict(MATH_PROMPTS.get(rules.name, {}))
    if actions == "json":
        rules = with_json_actions(rules, "end" if invalid_action == "end" else "pass")
        prompts[META] = f"{PROMPT}\n{CLOSING}" if rules.name == "multi_turn" else PROMPT
        given = as_rewards(settings.get("rewards", (ANSWER,)), rules.roles)
        settings["rewards"] = (*given, *action_terms(0.0 if invalid_action == "end" else invalid_action))
    return raw_dialogue_env(rules, problems, grader, default_prompts=prompts, name="math_v0", **settings)


math_v0 = EnvFactory("math_v0", __name__, raw_env)
env, parallel_env = math_v0.env, math_v0.parallel_env
register(math_v0)
