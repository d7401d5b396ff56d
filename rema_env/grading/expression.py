"""Expressions: what one number, formula or name in an answer says, as a small tree. `grammar` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Number:
    """An exact number; `measured` where it was written with a decimal point."""

    value: Fraction
    measured: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable or constant: `x`, `a_1`, `\\pi`, `e`, `i`, `\\infty`."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation and its arguments: add, mul, div, pow, neg, sin, root, ..."""

    op: str
    args: tuple[Expr, ...]


Expr = Number | Name | Call
