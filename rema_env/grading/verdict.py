"""True, False, or None where it could not be told; and who tells it for single expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rema_env.grading.expression import Expr

Verdict = bool | None


class Judge(Protocol):
    """Compares expressions; None where it cannot tell."""

    def same(self, gold: Expr, said: Expr) -> Verdict:
        """Equal as numbers or functions."""
        ...

    def proportional(self, gold: Expr, said: Expr) -> int | None:
        """The sign of c in said = c * gold for a constant c; 0 where there is none."""
        ...

    def foreign(self, gold: str, said: str) -> Verdict:
        """Equal, where only math-verify reads the notation."""
        ...


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """False if any is, else None if any is, else True."""
    result: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        result = None if verdict is None else result
    return result


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True if any is, else None if any is, else False."""
    result: Verdict = False
    for verdict in verdicts:
        if verdict:
            return True
        result = None if verdict is None else result
    return result
