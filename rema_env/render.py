"""A transcript as plain text, for a terminal."""

from __future__ import annotations

import io
from typing import TextIO

from rema_env.transcript import Finish, Transcript, Turn


def turn_text(turn: Turn) -> str:
    """One turn: the agent's name, how its message ended where it did not stop by itself, and what it said."""
    message = turn.message
    how = "" if message.finish == Finish.STOP else f" ({message.finish})"
    thought = f"[thinks] {message.reasoning}\n" if message.reasoning else ""
    return f"{turn.agent}{how}:\n{thought}{message}\n"


def heading(transcript: Transcript) -> str:
    """The problem, with its id, its level where it has one, and the two answers of a pair."""
    problem = transcript.problem
    level = "" if problem.level is None else f", level {problem.level}"
    sides = "".join(
        f"\nanswer {side.upper()}:\n{problem.extra[key]}\n"
        for side in "ab"
        if (key := f"answer_{side}") in problem.extra
    )
    return f"problem {problem.id}{level}:\n{problem.question}\n{sides}"


def closing(transcript: Transcript, rewards: dict[str, float] | None = None) -> str:
    """How it ended and what it paid; an empty string while it goes on."""
    if transcript.ending is None:
        return ""
    paid = "".join(f", {agent} {reward:g}" for agent, reward in (rewards or {}).items())
    return f"{transcript.ending}{paid}; golden answer: {transcript.problem.answer}\n"


def transcript_text(transcript: Transcript, rewards: dict[str, float] | None = None) -> str:
    """The whole dialogue so far.

    Args:
        transcript: what was said.
        rewards: agent -> total reward, printed with the ending.
    """
    parts = [heading(transcript), *map(turn_text, transcript.turns), closing(transcript, rewards)]
    return "\n".join(filter(None, parts))


def escaping(stream: TextIO) -> None:
    """Have a stream write what its encoding lacks as an escape, e.g. `\\xfc` in ASCII, instead of failing on it."""
    if isinstance(stream, io.TextIOWrapper):  # not that of a notebook, which takes everything
        stream.reconfigure(errors="backslashreplace")
