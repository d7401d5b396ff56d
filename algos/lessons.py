"""Dialogues to learn from, by a file or by the oracle of the procedural problems; and the seats that speak them.

A lesson is played through the environment and kept in tokens as if a model had sampled it, so that nothing tells its
episode from one of reinforcement learning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from pettingzoo import AECEnv

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.types import Call, Completion, Episode, Seat
from rema_env.dialogue import DialogueEnv
from rema_env.limits import ending_of
from rema_env.problems.arithmetic import arithmetic
from rema_env.problems.files import plain, text_of
from rema_env.problems.listed import Listed
from rema_env.problems.oracles import oracle_of
from rema_env.problems.sources import tables_of
from rema_env.process import agent_of
from rema_env.roles import BOX, FINISH_FLAG
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript

Speak = Callable[[Sequence[Mapping[str, str]], int], str]
"""An agent's chat, and how many messages it has said -> what to say. Pure: a lesson can be played again."""

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
        text = self._speak(observation["messages"], len(self.calls))
        prompt_ids, ids = self._codec.prompt_ids(observation["messages"], self.calls), self._codec.reply_ids(text)
        if len(prompt_ids) + len(ids) > self._max_length:
            return Message("", Finish.CONTEXT_FULL)
        self.calls.append(Call(self.agent, int(observation["turn"]), prompt_ids, Completion(ids, (), Finish.STOP)))
        return Message(text)


@dataclass(frozen=True)
class Lesson:
    """One dialogue to learn from.

    Attributes:
        process: its name.
        problem: what it is about.
        speak: agent -> what it says.
        messages: how many there are; None where they come as the dialogue goes.
    """

    process: str
    problem: Problem
    speak: Mapping[str, Speak]
    messages: int | None = None


def oracle_lesson(mistakes: Mistakes, casts: Sequence[Cast], seed: int, index: int) -> Lesson:
    """The index-th dialogue of the procedural problems' training split, with its share of mistakes.

    Processes are dealt in turn; after each round of them comes the next level.
    """
    process, agents = casts[index % len(casts)]
    level = mistakes.operations[index // len(casts) % len(mistakes.operations)]
    rng = Random(f"{seed} lesson {index}")
    plain, number = rng.random() < mistakes.plain, rng.getrandbits(32)
    oracle = oracle_of(process, plain=plain, slip=mistakes.slip, early=mistakes.early, seed=number)
    return Lesson(
        process, arithmetic(level, "train").draw(seed, index), dict.fromkeys(agents, lambda chat, said: oracle(chat))
    )


def recorded_lesson(dialogues: Listed, cast: Cast, seed: int, index: int) -> Lesson:
    """The index-th dialogue of a file, each epoch in an order of its own."""
    problem, (process, agents) = dialogues.draw(seed, index), cast
    lines = {agent: problem.extra[agent] for agent in agents}
    speak = {agent: partial(_recorded, problem.id, own) for agent, own in lines.items()}
    return Lesson(process, problem, speak, sum(map(len, lines.values())))


def _recorded(dialogue: str, lines: Sequence[str], chat: Sequence[Mapping[str, str]], said: int) -> str:
    if said == len(lines):
        raise ValueError(f"dialogue {dialogue!r} of the file is over, but another message is asked for")
    return lines[said]


def read_dialogues(name: str, agents: Sequence[str]) -> Listed:
    """The dialogues of a file as problems whose `extra` holds each agent's lines.

    The planner's last line gets the finish flag where it lacks it, and the solver's lines lose it: only the planner
    ends a dialogue. Dialogues that break off without a boxed answer are left out.

    Args:
        name: a parquet or JSON Lines file, or a name on the hub, with the columns `question` and `turns`, a list of
            {meta, reasoning}; `id` and `answer` are optional.
        agents: planner and solver.

    Raises:
        ValueError: no such columns, a row of another shape, a question that is no text, or nothing left.
    """
    found = [
        _dialogue(table.name, number, row, agents)
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


def _dialogue(file: str, number: int, row: Mapping[str, Any], agents: Sequence[str]) -> Problem:
    where = f"{file}, row {number}"
    question, answer = text_of(row["question"], file, number, "question"), plain(row.get("answer"))
    answer = "" if answer in (None, "") else text_of(answer, file, number, "answer")
    try:
        plans, steps = ([_without_flag(turn[name]) for turn in row["turns"]] for name in ("meta", "reasoning"))
        plans[-1] = f"{plans[-1]} {FINISH_FLAG.text}"
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError(f"{where}: turns must be a list of {{meta, reasoning}} with text in both") from None
    lines = dict(zip(agents, (plans, steps), strict=True))
    return Problem(str(row.get("id", where)), question, answer, extra=lines)


def _without_flag(text: str) -> str:
    text = text.rstrip()
    while text.endswith(FINISH_FLAG.text):
        text = text.removesuffix(FINISH_FLAG.text).rstrip()
    return text


def make_lessons(
    dataset: str | None,
    mistakes: Mistakes,
    casts: Sequence[Cast],
    seed: int,
    envs: Mapping[str, AECEnv] | None = None,
) -> Callable[[int], Lesson]:
    """index -> dialogue, a pure function of seed and index: from a file of dialogues, or from the oracle.

    Args:
        casts: the processes to teach, dealt in turn; one that is named twice is taught twice as often.
        envs: process -> where it is taught; each dialogue, or one of each level, has to come to its own end there.

    Raises:
        ValueError: for a file that cannot be used or a cast that it does not fit, a process without an oracle, a level
            that there is not, or a dialogue that the environment would cut short.
    """
    if dataset is None:
        for process, _ in casts:
            oracle_of(process)
        lesson = partial(oracle_lesson, mistakes, casts, seed)
        different = len(casts) * len(mistakes.operations)
    elif len(casts) != 1 or len(casts[0][1]) != 2:
        agents = ", ".join(agent for _, cast in casts for agent in cast)
        raise ValueError(f"dialogues of a file have a planner and a solver in one process, here are {agents}")
    else:
        dialogues = read_dialogues(dataset, casts[0][1])
        lesson = partial(recorded_lesson, dialogues, casts[0], seed)
        different = len(dialogues)
    if envs:
        for index in range(different):
            rehearse(one := lesson(index), envs[one.process])
    return lesson


def rehearse(lesson: Lesson, env: AECEnv) -> None:
    """Raise ValueError where an environment of this package would cut a dialogue short, or ask for more."""
    game, transcript, ending = env.unwrapped, Transcript(lesson.problem), None
    if not isinstance(game, DialogueEnv):
        return
    while ending is None:
        agent = agent_of(role := game.process.next_speaker(transcript))
        said = len(transcript.by(role))
        transcript = transcript.said(agent, lesson.speak[agent](game.process.view(transcript, role), said))
        ending = ending_of(game.process, transcript, game.limits)
    turns, whole = len(transcript.turns), lesson.messages or len(transcript.turns)
    if ending is not Ending.FINISHED or turns != whole:
        too_short = f"raise --max-rounds above {game.limits.max_rounds}"
        raise ValueError(
            f"dialogue {lesson.problem.id!r:.60} would end as {ending} after {turns} messages"
            + (f" of its {whole}" if lesson.messages else "")
            + f" in process {lesson.process}: {too_short if ending is Ending.ROUND_LIMIT else 'name another --process'}"
            + ", or leave it out"
        )


def play_lessons(
    make_env: Callable[[], AECEnv], codec: ChatCodec, lessons: Sequence[Lesson], max_length: int
) -> list[Episode]:
    """The dialogues as episodes, played through the environment."""

    def seats_for(dialogue: int) -> Mapping[str, Seat]:
        speak = lessons[dialogue].speak
        return {agent: TaughtSeat(agent, codec, speak[agent], max_length) for agent in speak}

    return play(make_env, seats_for, [lesson.problem for lesson in lessons], concurrency=_AT_ONCE)
