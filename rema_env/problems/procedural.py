"""Endless families of problems: made by rule, decided by two numbers, with a held-out part."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from rema_env.problems import Problems
from rema_env.transcript import Problem

Split = Literal["train", "heldout"]
HELDOUT = 8  # one problem in this many is held out


@dataclass(frozen=True)
class Procedural:
    """An endless source of the problems that `make` makes.

    Attributes:
        family: what the problems are called in ids, sources and metrics.
        level: difficulty, as the family defines it.
        make: makes a problem from a generator and a level; a function that can be imported, so that sources pickle.
        split: only the problems of one part; None for all. A hash of the problem decides, the same everywhere.
    """

    family: str
    level: int
    make: Callable[[Random, int], Problem]
    split: Split | None = None

    def __post_init__(self) -> None:
        if self.split not in ("train", "heldout", None):
            raise ValueError(f"split must be 'train', 'heldout' or None for both, got {self.split!r}")

    @property
    def name(self) -> str:
        """For example `chains-3-heldout`."""
        return "-".join([self.family, str(self.level), *([self.split] if self.split else [])])

    @property
    def size(self) -> None:
        """None: the source has no end and no epochs."""
        return None

    def parted(self, split: Split) -> Procedural:
        """The same family with only the problems of one split, 7 of 8 for training."""
        return replace(self, split=split)

    def draw(self, seed: int, index: int) -> Problem:
        """The problem at one index: a pure function of (seed, index), the same on every machine."""
        rng = Random(f"{self.family} {seed} {index}")
        while True:
            problem = self.make(rng, self.level)
            if self.split is None or is_heldout(problem.question) == (self.split == "heldout"):
                return problem

    def listed(self, count: int, seed: int = 0) -> tuple[Problem, ...]:
        """As `first_different`."""
        return first_different(self, count, seed)


def is_heldout(text: str) -> bool:
    """Decided by the problem's own text, the same in every process and version."""
    return hashlib.blake2b(text.encode(), digest_size=4).digest()[0] % HELDOUT == 0


def first_different(source: Problems, count: int, seed: int) -> tuple[Problem, ...]:
    """The first `count` different problems of an endless source, in the order of their draw.

    Raises:
        ValueError: where the source hardly holds that many.
    """
    found: dict[str, Problem] = {}
    for index in range(10 * count + 500):
        if len(found) == count:
            break
        problem = source.draw(seed, index)
        found.setdefault(problem.id, problem)
    if len(found) < count:
        raise ValueError(f"{source.name} holds {len(found)} different problems, {count} were asked for")
    return tuple(found.values())


def level_in(level: int, levels: range, what: str) -> int:
    """The level itself; ValueError where the family has no such level."""
    if level not in levels:
        raise ValueError(f"{what} must be {levels[0]} to {levels[-1]}, got {level!r}")
    return level
