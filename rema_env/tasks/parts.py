"""A dialogue environment put together from its parts: any process, problems, grader and rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from rema_env.dialogue import DialogueEnv, Grader, Settings
from rema_env.factory import EnvFactory
from rema_env.grading import load, pooled
from rema_env.problems import Problems
from rema_env.problems.arithmetic import arithmetic
from rema_env.problems.files import GoldFault
from rema_env.problems.named import load as load_problems_named
from rema_env.process import Process, process_named
from rema_env.roles import BOX, Tag


def raw_env(
    process: str | Process = "multi_turn",
    problems: Problems | None = None,
    grade: str | Grader = "math",
    *,
    dataset: str | Path | Problems | None = None,
    question_column: str | None = None,
    answer_column: str | None = None,
    streaming: bool = False,
    default_prompts: Mapping[str, str] | None = None,
    tag: Tag = BOX,
    name: str = "dialogue_v0",
    **settings: Unpack[Settings],
) -> DialogueEnv:
    """The bare environment.

    Args:
        process: multi_turn, single_turn, mrp, vrp, or a `Process` of your own.
        problems: any source; default: procedural arithmetic.
        grade: "math", "choice", "exact", "token_f1" or "package.module:function", each made safe by workers that can be
            killed; or a function (problem, text) -> Grade, called as it is.
        dataset: takes the place of `problems`, so that flags can name what a task trains and is evaluated on.
        question_column, answer_column, streaming: how it is read, as of `math_v0`.
        default_prompts: role -> system prompt, which the argument `system_prompts` overrides.
        tag: the form of an answer, for reward terms that look for it: `BOX`, `VERDICT`, `Blocks` of `rema_env.roles`.
        name: the environment's name.
        **settings: `rewards`, `system_prompts`, `max_rounds` (30; also `max_cycles`), `on_cut`, `unfinished_reward`,
            `render_mode`: see `DialogueEnv`.
    """
    reading = {"question_column": question_column, "answer_column": answer_column, "streaming": streaming}
    own = problems if dataset is None else None
    problems = given_or_read("dialogue_env", own, dataset, partial(read_for, grade), **reading)
    return DialogueEnv(
        process_named(process),
        arithmetic() if problems is None else problems,
        pooled(load(grade)) if isinstance(grade, str) else grade,
        default_prompts=default_prompts,
        tag=tag,
        name=name,
        **settings,
    )


def given_or_read(
    env: str,
    problems: Problems | None,
    dataset: str | Path | Problems | None,
    read: Callable[..., Problems],
    **reading: Any,
) -> Problems | None:
    """The problems that a task was given, or those of the data set that it was; None where it was given neither.

    Args:
        env: the task's name, for messages.
        problems, dataset: one of them, or none; a data set may have been read already.
        read: makes problems of a data set and `reading`.
        **reading: how it is read: `question_column`, `answer_column`, `streaming` of `load`.

    Raises:
        ValueError: for both, for a way of reading without a data set, and as `read`.
    """
    if dataset is None:
        if told := sorted(name for name, value in reading.items() if value):
            raise ValueError(f"{env}: {', '.join(told)} tells how a dataset is read, and there is none")
        return problems
    if problems is not None:
        raise ValueError(f"{env} takes problems or dataset, not both")
    return dataset if isinstance(dataset, Problems) else read(dataset, **reading)


def read_for(grader: str | Grader, dataset: str | Path, **reading: Any) -> Problems:
    """The problems of a data set whose golden answers a grader can check. Errors and `reading` as of `load`."""
    return load_problems_named(dataset, gold_fault=fault_of(grader), **reading)


def fault_of(grader: str | Grader) -> GoldFault | None:
    """The grader's own word on golden answers, where it has one."""
    found: GoldFault | None = getattr(load(grader) if isinstance(grader, str) else grader, "gold_fault", None)
    return found


dialogue_env = EnvFactory("dialogue_env", __name__, raw_env)
env, parallel_env = dialogue_env.env, dialogue_env.parallel_env
