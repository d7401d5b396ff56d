"""Three agents on one sum: a solver proposes, a critic objects, a refiner decides.

The critic may speak twice in a round: an objection that names a number is followed by a second remark. A round ends
with the refiner; the dialogue is over when its message holds a number that the solver has named, and goes on with the
solver otherwise. A package of its own: it knows rema's public names, and nothing in rema knows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pettingzoo import AECEnv

from rema_env import Ending, Grade, Outcome, Problem, Process, Transcript, dialogue_env

SOLVER, CRITIC, REFINER = ROLES = ("solver", "critic", "refiner")

PROMPTS = {
    SOLVER: "You solve the problem. Say your result.",
    CRITIC: "You look for mistakes in the solver's result. Say what you would have done.",
    REFINER: "You have heard a result and what was said against it. Say the number that you hold to be right.",
}


def next_speaker(transcript: Transcript) -> str:
    """Solver, critic, the critic once more where it named a number, refiner."""
    said = [turn.role for turn in transcript.turns]
    if not said or said[-1] == REFINER:
        return SOLVER
    if said[-1] == SOLVER:
        return CRITIC
    second_remark = said[-2:] != [CRITIC, CRITIC] and last_number(transcript.turns[-1].message) is not None
    return CRITIC if second_remark else REFINER


def view(transcript: Transcript, role: str) -> Sequence[dict[str, str]]:
    """Everyone hears everything, as one user message in which each line tells who speaks."""
    lines = (f"{turn.role}: {turn.message}" for turn in transcript.turns)
    return [{"role": "user", "content": "\n".join((transcript.problem.question, *lines))}]


def ending(transcript: Transcript) -> Ending | None:
    """Over once the refiner names a number that a solver has named."""
    if not transcript.turns or transcript.turns[-1].role != REFINER:
        return None
    proposed = {last_number(message) for message in transcript.by(SOLVER)} - {None}
    return Ending.FINISHED if last_number(transcript.turns[-1].message) in proposed else None


def last_number(text: str) -> int | None:
    """The last whole number in a text, of which ten digits are read at most."""
    found = re.findall(r"[0-9]{1,10}", text)
    return int(found[-1]) if found else None


def nearness(problem: Problem, text: str) -> Grade:
    """1 for the right number, 1 / (1 + distance) for another, 0 without any."""
    number = last_number(text)
    if number is None:
        return Grade(0.0, Outcome.NO_ANSWER)
    off = abs(number - int(problem.answer))
    return Grade(1 / (1 + off), Outcome.RIGHT if off == 0 else Outcome.WRONG, str(number))


class Sums:
    """Sums of two digits: draw `index` under `seed` is one of a hundred."""

    name = "sums"
    size = 100

    def draw(self, seed: int, index: int) -> Problem:
        """Each sum once in a hundred draws."""
        a, b = divmod((7 * seed + 37 * index) % self.size, 10)
        return Problem(f"{a}+{b}", f"{a}+{b}?", str(a + b), source=self.name)


PROCESS = Process("debate", ROLES, next_speaker, view, ending, answerer=REFINER, turns_per_round=4)


def env(**settings: Any) -> AECEnv[str, Mapping[str, Any], str]:
    """The environment; settings as of any text environment of rema: rewards, system_prompts, max_rounds, ..."""
    return dialogue_env(PROCESS, Sums(), "debate:nearness", default_prompts=PROMPTS, name="debate_v0", **settings)
