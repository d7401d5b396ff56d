"""Who stands where: comparisons in no order; the answer is a name.

    Ann is taller than Bob. Cid is shorter than Bob. Who is the tallest?

Level n has n people. The plan is to line them up, one comparison after the other.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from rema_env.problems.procedural import Procedural, Split, level_in
from rema_env.transcript import Problem

LEVELS = range(3, 11)
NAMES = (
    "Ann",
    "Bob",
    "Cid",
    "Dora",
    "Eve",
    "Finn",
    "Gus",
    "Hal",
    "Ida",
    "Jo",
    "Kim",
    "Leo",
    "Mia",
    "Ned",
    "Oli",
    "Pia",
)
_PLACES = ("tallest", "second tallest", "third tallest")


def ranks(people: int = 4, split: Split | None = None) -> Procedural:
    """Line-ups of `people` people (3 to 10, also the problems' level)."""
    return Procedural("ranks", level_in(people, LEVELS, "people"), rank_problem, split)


def rank_problem(rng: Random, people: int) -> Problem:
    """One problem: every neighbour in the line compared once, the comparisons shuffled."""
    line = rng.sample(NAMES, people)  # from tall to short
    told = [_compare(rng, taller, shorter) for taller, shorter in pairwise(line)]
    rng.shuffle(told)
    place = rng.randrange(len(_PLACES))
    question = f"{' '.join(told)} Who is the {_PLACES[place]}?"
    return Problem(f"ranks/{question}", question, line[place], level=people, source="ranks")


def _compare(rng: Random, taller: str, shorter: str) -> str:
    return rng.choice((f"{taller} is taller than {shorter}.", f"{shorter} is shorter than {taller}."))
