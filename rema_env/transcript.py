"""What is said in one episode, as frozen data: problem, messages, turns, ending, grade; and its JSON.

Everything else in rema_env is a pure function of these values. Nothing here knows tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from typing import Any


class Ending(StrEnum):
    """How an episode ended. Only `FINISHED` terminates in PettingZoo's sense; all others truncate."""

    FINISHED = "finished"
    ROUND_LIMIT = "round_limit"
    MESSAGE_LIMIT = "message_limit"
    CONTEXT_FULL = "context_full"
    INVALID_ACTION = "invalid_action"
    ABORTED = "aborted"

    @property
    def terminated(self) -> bool:
        """True where the dialogue came to its own end."""
        return self == Ending.FINISHED

    @classmethod
    def _missing_(cls, value: object) -> Ending:
        raise ValueError(f"a dialogue's ending is {', '.join(cls)}, got {value!r:.40}")


class Finish(StrEnum):
    """How one message ended.

    `STOP`: the speaker ended it. `LENGTH`: the limit of tokens a message cut it. `CONTEXT_FULL`: the chat no longer
    fitted, nothing was said. `ABORTED`: the speaker was lost (a dead server, a time limit, a cancellation).
    """

    STOP = "stop"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    ABORTED = "aborted"

    @classmethod
    def _missing_(cls, value: object) -> Finish:
        raise ValueError(f"a message's finish is {', '.join(cls)}, got {value!r:.40}")


class Message(str):
    """What a seat says: a `str` that also knows how it ended.

    A plain `str` passed to `env.step` counts as `Message(text)`, one that stopped by itself.

    Attributes:
        finish: how the message ended.
        reasoning: the speaker's private reasoning block, kept in the transcript; neither shown to the partner nor
            searched for flag and answer.
    """

    finish: Finish
    reasoning: str

    def __new__(cls, text: str = "", finish: Finish | str = Finish.STOP, reasoning: str = "") -> Message:
        """A message of this text. Raises TypeError for anything but text, ValueError for an unknown finish."""
        if not isinstance(text, str) or not isinstance(reasoning, str):
            raise TypeError(f"a message and its reasoning are text, got {text!r:.60} and {reasoning!r:.60}")
        message = super().__new__(cls, text)
        message.finish = finish if isinstance(finish, Finish) else Finish(finish)
        message.reasoning = reasoning
        return message

    def __getnewargs__(self) -> tuple[str, Finish, str]:  # type: ignore[override]
        return str(self), self.finish, self.reasoning

    def __eq__(self, other: object) -> bool:
        """Equal to any equal text; two messages also have to agree on how they ended."""
        if isinstance(other, Message):
            return str.__eq__(self, other) and (self.finish, self.reasoning) == (other.finish, other.reasoning)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


@dataclass(frozen=True)
class Problem:
    """A question with its golden answer.

    Attributes:
        id: unique within its source; names the problem in episodes, metrics and error messages.
        question: what both agents are asked.
        answer: the golden answer as text, without a box.
        level: difficulty as the source names it, or None.
        source: where it comes from, e.g. "arithmetic" or a file name.
        extra: further fields that a task needs (sides of a pair, a subject), JSON values only.

    Raises:
        ValueError: where question or answer is no text: a number is not the text that a grader compares.
    """

    id: str
    question: str
    answer: str
    level: int | str | None = None
    source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not isinstance(self.answer, str):
            raise ValueError(
                f"problem {self.id!r:.60}: question and answer are text, got {self.question!r:.60} and"
                f" {self.answer!r:.60}"
            )


@dataclass(frozen=True)
class Turn:
    """One message by one agent (`meta_0`, `reasoner_0`, ...); an empty one where the agent could not speak."""

    agent: str
    message: Message

    @property
    def role(self) -> str:
        """The agent's name without its number, e.g. `meta`."""
        return role_of(self.agent)

    @property
    def was_said(self) -> bool:
        """False where the agent never came to speak: its chat no longer fitted, or it was lost."""
        return self.message.finish not in (Finish.CONTEXT_FULL, Finish.ABORTED)


def role_of(agent: str) -> str:
    """The role that an agent plays: `meta_0` plays `meta`."""
    return agent.rpartition("_")[0]


@dataclass(frozen=True)
class Transcript:
    """All that was said about one problem so far, and how it ended (None while it goes on)."""

    problem: Problem
    turns: tuple[Turn, ...] = ()
    ending: Ending | None = None

    def said(self, agent: str, message: str) -> Transcript:
        """This transcript with one more turn."""
        message = message if isinstance(message, Message) else Message(message)
        return type(self)(self.problem, (*self.turns, Turn(agent, message)), self.ending)

    def ended(self, ending: Ending) -> Transcript:
        """This transcript, closed."""
        return type(self)(self.problem, self.turns, ending)

    def by(self, role: str) -> tuple[Message, ...]:
        """All that one role really said, in order; a turn in which it could not speak says nothing of it."""
        return tuple(turn.message for turn in self.turns if turn.role == role and turn.was_said)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` restores an equal transcript."""
        return {
            "problem": problem_to_json(self.problem),
            "turns": [
                {"agent": t.agent, "text": str(t.message), "finish": str(t.message.finish)}
                | ({"reasoning": t.message.reasoning} if t.message.reasoning else {})
                for t in self.turns
            ],
            "ending": None if self.ending is None else str(self.ending),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Transcript:
        """The transcript that `to_json` wrote. Raises ValueError on anything else, saying what does not fit."""
        if not isinstance(data, Mapping) or not isinstance(data.get("turns"), (list, tuple)):
            raise ValueError(f"a transcript is a mapping with problem, turns (a list) and ending, got {data!r:.80}")
        turns = tuple(_turn_from_json(k, turn) for k, turn in enumerate(data["turns"]))
        ending = data.get("ending")
        return cls(problem_from_json(data.get("problem")), turns, None if ending is None else Ending(ending))


def _turn_from_json(number: int, data: Any) -> Turn:
    try:
        message = Message(data["text"], data.get("finish") or Finish.STOP, data.get("reasoning") or "")
        return Turn(str(data["agent"]), message)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"turn {number} of the transcript needs agent and text ({error}), got {data!r:.80}") from None


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """The problem's fields as plain JSON values."""
    return {
        "id": problem.id,
        "question": problem.question,
        "answer": problem.answer,
        "level": problem.level,
        "source": problem.source,
        "extra": dict(problem.extra),
    }


def problem_from_json(data: Any) -> Problem:
    """A problem from a mapping with at least `question` and `answer`; `id` defaults to the question.

    Numbers are written out, as they are in a data set: 7 and 7.0 are "7".

    Raises:
        ValueError: for anything else, saying what does not fit.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"a problem is a Problem or a mapping with question and answer, got {data!r:.80}")
    missing = [name for name in ("question", "answer") if name not in data]
    if missing:
        raise ValueError(f"a problem needs question and answer; {', '.join(missing)} missing, got {sorted(data)}")
    question, answer = written(data["question"]), written(data["answer"])
    extra = data.get("extra") or {}
    if not isinstance(extra, Mapping):
        raise ValueError(f"a problem's extra is a mapping from name to value, got {extra!r:.80}")
    return Problem(
        id=str(data.get("id", question)),
        question=question,
        answer=answer,
        level=data.get("level"),
        source=str(data.get("source", "")),
        extra=dict(extra),
    )


def written(value: Any) -> Any:
    """A number as text, an integer without a fraction even where it was stored as a float; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return str(int(value))
    number = float(value)
    if not math.isfinite(number):
        return value
    return str(int(number)) if number.is_integer() else str(value)


class Outcome(StrEnum):
    """What grading an answer came to; only `RIGHT` scores above 0 for graders that score 0 or 1."""

    RIGHT = "right"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    UNPARSABLE = "unparsable"
    TOO_LONG = "too_long"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Grade:
    """The verdict on one answer.

    Attributes:
        score: in [0, 1].
        outcome: why.
        extracted: the answer that was found in the message, None where there was none.
    """

    score: float
    outcome: Outcome
    extracted: str | None = None
