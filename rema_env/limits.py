"""What ends a dialogue from outside its rules: too many rounds, a message that was cut, a seat that was lost.

Pure functions of a transcript, a process and the limits; the environment asks them, and so can anyone who plays.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from rema_env.process import Process, agent_of
from rema_env.spaces import MAX_CHARACTERS, valid_unicode
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, problem_from_json, problem_to_json

DEFAULT_MAX_ROUNDS = 30

OnCut = Literal["end", "continue"]

_FINISHES = frozenset(Finish)
_ENDINGS = frozenset(Ending)


@dataclass(frozen=True)
class Limits:
    """What ends a dialogue from outside its rules: the number of rounds, and a cut message (`on_cut="end"`)."""

    max_rounds: int = DEFAULT_MAX_ROUNDS
    on_cut: OnCut = "end"

    def __post_init__(self) -> None:
        if not isinstance(self.max_rounds, Integral) or isinstance(self.max_rounds, bool) or self.max_rounds < 1:
            raise ValueError(f"max_rounds must be a whole number of at least 1, got {self.max_rounds!r}")
        object.__setattr__(self, "max_rounds", int(self.max_rounds))
        if self.on_cut not in ("end", "continue"):
            raise ValueError(f"on_cut must be end or continue, got {self.on_cut!r}")


def rounds_of(max_rounds: int | None, max_cycles: int | None) -> int:
    """The limit on rounds, which two arguments name. Raises ValueError where they differ."""
    if max_rounds is not None and max_cycles is not None and max_rounds != max_cycles:
        raise ValueError(f"max_rounds and max_cycles name one limit, got {max_rounds} and {max_cycles}")
    given = max_rounds if max_rounds is not None else max_cycles
    return DEFAULT_MAX_ROUNDS if given is None else given


def ending_of(process: Process, transcript: Transcript, limits: Limits) -> Ending | None:
    """How a dialogue ended with its last turn; None while it goes on.

    A lost or overfull seat ends it at once, a cut message does under `on_cut="end"`. A dialogue that is over, by its
    rules or by the limit on rounds, with a last message that was cut counts as `MESSAGE_LIMIT` in any case.
    """
    if not transcript.turns:
        return None
    finish = transcript.turns[-1].message.finish
    if finish == Finish.STOP:
        return _own_end(process, transcript, limits.max_rounds)
    if finish == Finish.ABORTED:
        return Ending.ABORTED
    if finish == Finish.CONTEXT_FULL:
        return Ending.CONTEXT_FULL
    if limits.on_cut == "end":
        return Ending.MESSAGE_LIMIT
    ending = _own_end(process, transcript, limits.max_rounds)
    return Ending.MESSAGE_LIMIT if ending in (Ending.FINISHED, Ending.ROUND_LIMIT) else ending


def _own_end(process: Process, transcript: Transcript, max_rounds: int) -> Ending | None:
    """How the dialogue ended by its rules or by the limit on rounds. Raises ValueError for an ending that is none."""
    ending = process.ending(transcript)
    if ending is None:
        return _round_limit(process, transcript, max_rounds)
    if ending not in _ENDINGS:
        raise ValueError(f"process {process.name!r} ends with {ending!r:.40}; an ending is {', '.join(Ending)} or None")
    return Ending(ending)


def _round_limit(process: Process, transcript: Transcript, max_rounds: int) -> Ending | None:
    """`ROUND_LIMIT` where the opening role would start one round too many, or the rounds' turns are used up."""
    turns = transcript.turns
    if len(turns) < max_rounds:
        return None
    if len(turns) >= max_rounds * process.turns_per_round:
        return Ending.ROUND_LIMIT
    opener = agent_of(process.roles[0])
    begun = [turn.agent for turn in turns].count(opener)
    over = begun >= max_rounds and process.next_speaker(transcript) == process.roles[0]
    return Ending.ROUND_LIMIT if over else None


def as_message(agent: str, action: object) -> Message:
    """What a live agent said, as it is kept.

    How it ended is read off any `str` that knows it, by its attribute `finish`. Lone surrogates are replaced; text
    longer than the action space allows is cut there and counts as cut.

    Raises:
        TypeError: for anything but a `str` (a `Message` is one), or one that ended or thought as no `Message` does.
    """
    if not isinstance(action, str):
        raise TypeError(f"{agent} must say a str or a Message, got {type(action).__name__}: {action!r:.80}")
    text, finish, thought = valid_unicode(str(action)), Finish.STOP, ""
    if type(action) is not str:
        finish, thought = getattr(action, "finish", finish), getattr(action, "reasoning", thought)
        if finish not in _FINISHES or not isinstance(thought, str):
            raise TypeError(f"{agent}'s message has finish {finish!r:.40} and reasoning {thought!r:.40}, see Message")
        finish, thought = Finish(finish), valid_unicode(thought)
    if len(text) > MAX_CHARACTERS:
        text, finish = text[:MAX_CHARACTERS], Finish.LENGTH
    return Message(text, finish, thought)


def as_problem(given: object) -> Problem:
    """The problem that is played: a `Problem`, or a mapping with question and answer; lone surrogates are replaced.

    Raises:
        ValueError: where it is neither, or asks nothing.
    """
    problem = given if isinstance(given, Problem) else problem_from_json(given)
    if not problem.question.strip():
        raise ValueError(f"problem {problem.id!r:.60} has an empty question")
    told = problem_to_json(problem)
    valid = _valid(told)
    return problem if valid == told else problem_from_json(valid)


def as_seed(seed: int | None) -> int:
    """The seed itself, or one made up. Raises ValueError for anything but a whole number of at least 0."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    try:
        found = -1 if isinstance(seed, bool) else operator.index(seed)
    except TypeError:
        found = -1
    if found < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    return found


def _valid(value: Any) -> Any:
    """JSON values whose every text can be encoded."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, dict):
        return {key: _valid(held) for key, held in value.items()}
    return type(value)(map(_valid, value)) if isinstance(value, (list, tuple)) else value


def check_continues(transcript: Transcript, process: Process, limits: Limits) -> Transcript:
    """The transcript itself, where it can have come about under these rules.

    Raises:
        ValueError: naming the first turn that a dialogue of this process could not have had.
    """
    so_far = Transcript(as_problem(transcript.problem))
    for k, turn in enumerate(transcript.turns):
        if (ending := ending_of(process, so_far, limits)) is not None:
            raise ValueError(f"the transcript goes on after its end: turn {k} follows {ending}")
        if turn.agent != (expected := agent_of(process.next_speaker(so_far))):
            raise ValueError(f"turn {k} of the transcript is {turn.agent}'s, but it is {expected}'s turn")
        so_far = so_far.said(turn.agent, as_message(turn.agent, turn.message))
    return so_far
