"""Sets of real numbers in every notation: intervals, unions, inequalities, set builders.

`(-oo, -2) \\cup (2, oo)`, `x < -2 or x > 2`, `|x| > 2` and `\\{x : |x| > 2\\}` are the same set; each is read as
intervals in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rema_env.grading.answer import (
    Answer,
    Bracket,
    Builder,
    Listing,
    Quantity,
    Reals,
    Relation,
    Union,
    Without,
    is_label,
)
from rema_env.grading.expression import Call, Expr, Name
from rema_env.grading.numeric import FLOAT, Unsure, value
from rema_env.grading.points import Point
from rema_env.grading.verdict import Judge, Verdict, all_of

_INFINITY = float("inf")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}


@dataclass(frozen=True)
class End:
    """One end of an interval. `at` orders it; `expr` is compared exactly, None at infinity."""

    at: float
    closed: bool
    expr: Expr | None


@dataclass(frozen=True)
class Interval:
    """All reals between two ends; a single point where they are equal and closed."""

    low: End
    high: End


_LEFT = End(-_INFINITY, False, None)
_RIGHT = End(_INFINITY, False, None)


def real_set(answer: Answer) -> tuple[Interval, ...] | None:
    """The set in ascending intervals that do not touch; None where the answer is not such a set."""
    intervals = _intervals(answer)
    return None if intervals is None else _merged(intervals)


def same_intervals(gold: Sequence[Interval], said: Sequence[Interval], judge: Judge) -> Verdict:
    """Interval by interval: the same ends, open or closed as they are."""
    if len(gold) != len(said):
        return False
    ends = [(a, b) for g, s in zip(gold, said, strict=True) for a, b in ((g.low, s.low), (g.high, s.high))]
    if any(a.closed != b.closed or (a.expr is None) != (b.expr is None) for a, b in ends):
        return False
    if any(a.expr is None and a.at != b.at for a, b in ends):
        return False
    return all_of(
        a.expr == b.expr or judge.same(a.expr, b.expr) for a, b in ends if a.expr is not None and b.expr is not None
    )


def is_set_notation(answer: Answer) -> bool:
    """Whether only a set of reals can be meant; a pair in brackets may also be a point."""
    if isinstance(answer, Listing):
        relations = [item for item in answer.items if isinstance(item, Relation)]
        joined = answer.joined in ("or", "and") or any("!=" in relation.signs for relation in relations)
        return joined and len(relations) == len(answer.items) and any(map(is_set_notation, relations))
    if isinstance(answer, Relation):
        return any(sign not in ("=", "~") for sign in answer.signs)
    return isinstance(answer, Union | Without | Reals | Builder)


def _intervals(answer: Answer) -> list[Interval] | None:
    if isinstance(answer, Reals):
        return [Interval(_LEFT, _RIGHT)]
    if isinstance(answer, Bracket):
        return _bracketed(answer)
    if isinstance(answer, Builder):
        return _where(answer.condition)
    if isinstance(answer, Relation):
        return _inequality(answer)
    if isinstance(answer, Union):
        return _all_of([_intervals(part) for part in answer.parts])
    if isinstance(answer, Without):
        whole, *removed = map(_intervals, answer.parts)
        return _common([whole, *(_complement(intervals) for intervals in removed)])
    if isinstance(answer, Listing) and is_set_notation(answer):
        sets = [_intervals(item) for item in answer.items]
        return _all_of(sets) if answer.joined == "or" else _common(sets)
    return None


def _where(condition: Answer) -> list[Interval] | None:
    """Where a condition holds: an inequality, `x = 2`, or several with "or" between them."""
    if isinstance(condition, Listing) and condition.joined == "or":
        return _all_of([_where(item) for item in condition.items])
    return _intervals(condition) if isinstance(condition, Relation) or is_set_notation(condition) else None


def _all_of(sets: list[list[Interval] | None]) -> list[Interval] | None:
    found: list[Interval] = []
    for intervals in sets:
        if intervals is None:
            return None
        found.extend(intervals)
    return found


def _common(sets: list[list[Interval] | None]) -> list[Interval] | None:
    """The intersection."""
    total: list[Interval] | None = None
    for intervals in sets:
        if intervals is None:
            return None
        total = intervals if total is None else [c for a in total for b in intervals for c in _overlap(a, b)]
    return total


def _complement(intervals: list[Interval] | None) -> list[Interval] | None:
    """All reals in none of the intervals."""
    if intervals is None:
        return None
    outside = [
        [Interval(_LEFT, _turned(interval.low)), Interval(_turned(interval.high), _RIGHT)] for interval in intervals
    ]
    return _common([[Interval(_LEFT, _RIGHT)], *outside])


def _turned(end: End) -> End:
    return End(end.at, not end.closed and end.expr is not None, end.expr)


def _overlap(a: Interval, b: Interval) -> list[Interval]:
    low = max(a.low, b.low, key=lambda end: (end.at, not end.closed))
    high = min(a.high, b.high, key=lambda end: (end.at, end.closed))
    empty = low.at > high.at or (low.at == high.at and not (low.closed and high.closed))
    return [] if empty else [Interval(low, high)]


def _bracketed(answer: Bracket) -> list[Interval] | None:
    if answer.opener == "\\{":
        points = [_end(item, True) for item in answer.items]
        return None if None in points else [Interval(end, end) for end in points if end is not None]
    if len(answer.items) != 2:
        return None
    low, high = _end(answer.items[0], answer.opener == "["), _end(answer.items[1], answer.closer == "]")
    if low is None or high is None or low.at > high.at:
        return None
    return [Interval(low, high)]


def _end(answer: Answer, closed: bool) -> End | None:
    if not isinstance(answer, Quantity) or answer.expr is None:
        return None
    if answer.expr == Name("infty"):
        return _RIGHT
    if answer.expr == Call("neg", (Name("infty"),)):
        return _LEFT
    try:
        number = value(answer.expr, Point(), FLOAT)
    except Unsure:
        return None
    return End(number.real, closed, answer.expr) if not number.imag else None


def _inequality(relation: Relation) -> list[Interval] | None:
    """`x < 3`, `0 < x <= 5`, `|x| > 2`, `x in [2, 3]`, `x != 3`: one name between numbers."""
    parts, signs = list(relation.parts), list(relation.signs)
    if signs == ["in"] or (signs == ["="] and isinstance(parts[1], Bracket)):
        return _intervals(parts[1]) if is_label(parts[0]) else None
    if any(sign not in _FLIPPED for sign in signs) or len(parts) > 3:
        return None
    middle = next((k for k, part in enumerate(parts) if _variable(part) or _absolute(part)), None)
    if middle is None or (len(parts) == 3 and middle != 1):
        return None
    sets: list[list[Interval] | None] = []
    for k, part in enumerate(parts):
        if k != middle:
            sign = signs[k - 1] if k > middle else _FLIPPED[signs[k]]
            sets.append(_side(parts[middle], sign, part))
    return _common(sets)


def _side(variable: Answer, sign: str, bound: Answer) -> list[Interval] | None:
    """Where `variable sign bound` holds."""
    end = _end(bound, sign in ("<=", ">=", "="))
    if end is None:
        return None
    if _absolute(variable):
        return _absolute_side(sign, end)
    if sign == "=":
        return [Interval(end, end)]
    below, above = Interval(_LEFT, end), Interval(end, _RIGHT)
    return {"<": [below], "<=": [below], ">": [above], ">=": [above], "!=": [below, above]}[sign]


def _absolute_side(sign: str, end: End) -> list[Interval] | None:
    if end.expr is None or end.at <= 0 or sign not in ("<", "<=", ">", ">="):
        return None
    opposite = End(-end.at, end.closed, Call("neg", (end.expr,)))
    if sign[0] == "<":
        return [Interval(opposite, end)]
    return [Interval(_LEFT, opposite), Interval(end, _RIGHT)]


def _variable(answer: Answer) -> bool:
    return (
        isinstance(answer, Quantity)
        and isinstance(answer.expr, Name)
        and answer.unit is None
        and answer.expr.text not in ("infty", "pi", "e")
    )


def _absolute(answer: Answer) -> bool:
    return (
        isinstance(answer, Quantity)
        and isinstance(answer.expr, Call)
        and answer.expr.op == "abs"
        and isinstance(answer.expr.args[0], Name)
    )


def _merged(intervals: list[Interval]) -> tuple[Interval, ...]:
    """In ascending order, joined where they overlap or touch."""
    out: list[Interval] = []
    for interval in sorted(intervals, key=lambda each: (each.low.at, not each.low.closed)):
        last = out[-1] if out else None
        touching = last is not None and (
            interval.low.at < last.high.at
            or (interval.low.at == last.high.at and (interval.low.closed or last.high.closed))
        )
        if last is None or not touching:
            out.append(interval)
        elif (interval.high.at, interval.high.closed) > (last.high.at, last.high.closed):
            out[-1] = Interval(last.low, interval.high)
    return tuple(out)
