"""Dialogues to learn from, by a file or by the oracle of the procedural problems; and the seats that speak them.

A lesson is played through the environment and kept in tokens as if a model had sampled it, so that nothing tells its
episode from one of reinforcement learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from pettingzoo import AECEnv

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.types import Call, Completion, Episode, Seat
from rema_env.problems.arithmetic import arithmetic
from rema_env.problems.listed import Listed
from rema_env.problems.oracles import oracle_of
from rema_env.problems.sources import tables_of
from rema_env.roles import BOX, FINISH_FLAG
from rema_env.transcript import Finish, Message, Problem

Speak = Callable[[Sequence[Mapping[str, str]]], str]

Cast = tuple[str, Sequence[str]]
"""A process and the agents that play in it."""

_AT_ONCE = 32


@dataclass(frozen=True)
class Mistakes:
    """The procedural problems' levels, and how often the oracle goes wrong on them; see `oracle_of`.

    Attributes:
        operations: the levels, dealt in turn.
        plain, slip, early: probabilities.
    """

    operations: tuple[int, ...] = (2,)
    plain: float = 0.0
    slip: float = 0.0
    early: float = 0.0


class TaughtSeat:
    """A seat that says what it is told and keeps it in tokens, as if a model had sampled it.

    Args:
        agent: whose part it plays.
        codec: the chat format of the model that learns from it.
        speak: the agent's chat -> what to say.
        max_length: a call of more tokens than this is not made; the dialogue ends as `context_full`.

    Attributes:
        calls: what was said so far; without log-probabilities.
    """

    def __init__(self, agent: str, codec: ChatCodec, speak: Speak, max_length: int) -> None:
        self.agent = agent
        self.calls: list[Call] = []
        self._codec, self._speak, self._max_length = codec, speak, max_length

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """The next message."""
        text = self._speak(observation["messages"])
        prompt_ids, ids = self._codec.prompt_ids(observation["messages"], self.calls), self._codec.reply_ids(text)
        if len(prompt_ids) + len(ids) > self._max_length:
            return Message("", Finish.CONTEXT_FULL)
        self.calls.append(Call(self.agent, int(observation["turn"]), prompt_ids, Completion(ids, (), Finish.STOP)))
        return Message(text)


@dataclass(frozen=True)
class Lesson:
    """One dialogue to learn from: in which process, what it is about, and what each agent says in it."""

    process: str
    problem: Problem
    speak: Mapping[str, Speak]


def oracle_lesson(mistakes: Mistakes, casts: Sequence[Cast], seed: int, index: int) -> Lesson:
    """The index-th dialogue of the procedural problems' training split, with its share of mistakes.

    Processes are dealt in turn; after each round of them comes the next level.
    """
    process, agents = casts[index % len(casts)]
    level = mistakes.operations[index // len(casts) % len(mistakes.operations)]
    rng = Random(f"{seed} lesson {index}")
    plain, number = rng.random() < mistakes.plain, rng.getrandbits(32)
    oracle = oracle_of(process, plain=plain, slip=mistakes.slip, early=mistakes.early, seed=number)
    return Lesson(process, arithmetic(level, "train").draw(seed, index), dict.fromkeys(agents, oracle))


def recorded_lesson(dialogues: Listed, cast: Cast, seed: int, index: int) -> Lesson:
    """The index-th dialogue of a file, each epoch in an order of its own."""
    problem, (process, agents) = dialogues.draw(seed, index), cast
    return Lesson(process, problem, {agent: partial(_read_on, iter(problem.extra[agent])) for agent in agents})


def _read_on(lines: Iterator[str], messages: Sequence[Mapping[str, str]]) -> str:
    return next(lines)


def read_dialogues(name: str, agents: Sequence[str]) -> Listed:
    """The dialogues of a file as problems whose `extra` holds each agent's lines.

    The planner's last line gets the finish flag where it lacks it, and the solver's lines lose it: only the planner
    ends a dialogue. Dialogues that break off without a boxed answer are left out.

    Args:
        name: a parquet or JSON Lines file, or a name on the hub, with the columns `question` and `turns`, a list of
            {meta, reasoning}; `id` and `answer` are optional.
        agents: planner and solver.

    Raises:
        ValueError: no such columns, a row of another shape, or nothing left.
    """
    found = [
        _dialogue(f"{table.name}, row {number}", row, agents)
        for table in tables_of(name)
        for number, row in enumerate(table.rows(_columns(table.columns, table.name)))
    ]
    whole = [problem for problem in found if BOX.holds(problem.extra[agents[-1]][-1])]
    if not whole:
        raise ValueError(f"{name}: none of {len(found)} dialogues ends with a boxed answer")
    return Listed(name, whole)


def _columns(columns: Sequence[str], name: str) -> list[str]:
    missing = [column for column in ("question", "turns") if column not in columns]
    if missing:
        raise ValueError(
            f"{name}: finetuning needs the columns question and turns (a list of {{meta, reasoning}}); "
            f"{' and '.join(missing)} missing, there are {', '.join(columns)}"
        )
    return ["question", "turns", *(column for column in ("id", "answer") if column in columns)]


def _dialogue(where: str, row: Mapping[str, Any], agents: Sequence[str]) -> Problem:
    try:
        plans, steps = ([_without_flag(turn[name]) for turn in row["turns"]] for name in ("meta", "reasoning"))
        plans[-1] = f"{plans[-1]} {FINISH_FLAG.text}"
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError(f"{where}: turns must be a list of {{meta, reasoning}} with text in both") from None
    lines = dict(zip(agents, (plans, steps), strict=True))
    return Problem(str(row.get("id", where)), str(row["question"]), str(row.get("answer") or ""), extra=lines)


def _without_flag(text: str) -> str:
    return text.rstrip().removesuffix(FINISH_FLAG.text).rstrip()


def make_lessons(dataset: str | None, mistakes: Mistakes, casts: Sequence[Cast], seed: int) -> Callable[[int], Lesson]:
    """index -> dialogue, a pure function of seed and index: from a file of dialogues, or from the oracle.

    Args:
        casts: the processes to teach, dealt in turn; one that is named twice is taught twice as often.

    Raises:
        ValueError: for a file that cannot be used or a cast that it does not fit, or a process without an oracle.
    """
    if dataset is None:
        for process, _ in casts:
            oracle_of(process)
        return partial(oracle_lesson, mistakes, casts, seed)
    if len(casts) != 1 or len(casts[0][1]) != 2:
        agents = ", ".join(agent for _, cast in casts for agent in cast)
        raise ValueError(f"dialogues of a file have a planner and a solver in one process, here are {agents}")
    return partial(recorded_lesson, read_dialogues(dataset, casts[0][1]), casts[0], seed)


def play_lessons(
    make_env: Callable[[], AECEnv], codec: ChatCodec, lessons: Sequence[Lesson], max_length: int
) -> list[Episode]:
    """The dialogues as episodes, played through the environment."""

    def seats_for(dialogue: int) -> Mapping[str, Seat]:
        speak = lessons[dialogue].speak
        return {agent: TaughtSeat(agent, codec, speak[agent], max_length) for agent in speak}

    return play(make_env, seats_for, [lesson.problem for lesson in lessons], concurrency=_AT_ONCE)
