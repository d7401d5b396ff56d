r"""Answers with `\pm` and `\mp`, as the answers they stand for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rema_env.grading.answer import Answer, Bracket, Matrix, Quantity, Relation
from rema_env.grading.expression import Call, Expr

_MOST_SIGNS = 4


def alternatives(answer: Answer) -> tuple[Answer, ...]:
    r"""The answers that a quantity, point, vector or equation with `\pm` stands for; itself where it is but one.

    Where `\mp` stands beside `\pm`, upper signs go together and lower ones do: `(\pm 1, \mp 1)` is two points. Several
    `\pm` in one number are free of each other: `\pm 1 \pm i` is four. `(\pm 1, \pm 2)` may be two points or four,
    so that it is itself alone.
    """
    if isinstance(answer, Quantity):
        return _quantities(answer)
    parts = _parts(answer)
    signed = [k for k, part in enumerate(parts) if _signs(part)]
    if len(signed) == 1:
        k = signed[0]
        return tuple(_rebuilt(answer, (*parts[:k], each, *parts[k + 1 :])) for each in alternatives(parts[k]))
    if {"pm", "mp"} <= set(_signs(answer)):
        return tuple(_chosen(answer, itertools.repeat(upper)) for upper in (True, False))
    return (answer,)


def _quantities(quantity: Quantity) -> tuple[Answer, ...]:
    signs = _signs(quantity)
    if not signs or len(signs) > _MOST_SIGNS:
        return (quantity,)
    if len(set(signs)) > 1:
        return tuple(_chosen(quantity, itertools.repeat(upper)) for upper in (True, False))
    return tuple(_chosen(quantity, iter(uppers)) for uppers in itertools.product((True, False), repeat=len(signs)))


def _parts(answer: Answer) -> tuple[Answer, ...]:
    """Those whose signs are the whole's; a set has none, for its elements are several answers already."""
    if isinstance(answer, Bracket):
        return () if answer.opener == "\\{" else answer.items
    if isinstance(answer, Matrix):
        return tuple(itertools.chain(*answer.rows))
    return answer.parts if isinstance(answer, Relation) and set(answer.signs) == {"="} else ()


def _rebuilt(answer: Answer, parts: tuple[Answer, ...]) -> Answer:
    """The same kind of answer with other parts."""
    if isinstance(answer, Bracket):
        return Bracket(answer.opener, parts, answer.closer)
    if isinstance(answer, Matrix):
        remaining = iter(parts)
        return Matrix(tuple(tuple(itertools.islice(remaining, len(row))) for row in answer.rows))
    return Relation(parts, answer.signs) if isinstance(answer, Relation) else answer


def _signs(answer: Answer) -> list[str]:
    """The double signs in it, `pm` or `mp`, in the order in which `_chosen` meets them."""
    if isinstance(answer, Quantity):
        return [] if answer.expr is None else _signs_of(answer.expr)
    return [sign for part in _parts(answer) for sign in _signs(part)]


def _signs_of(expr: Expr) -> list[str]:
    if not isinstance(expr, Call):
        return []
    inner = [sign for arg in expr.args for sign in _signs_of(arg)]
    return [*inner, expr.op] if expr.op in ("pm", "mp") else inner


def _chosen(answer: Answer, uppers: Iterator[bool]) -> Answer:
    """With the upper or the lower sign at each place."""
    if isinstance(answer, Quantity):
        expr = None if answer.expr is None else _chosen_in(answer.expr, uppers)
        return Quantity(expr, answer.source, answer.unit)
    parts = tuple(_chosen(part, uppers) for part in _parts(answer))
    return _rebuilt(answer, parts) if parts else answer


def _chosen_in(expr: Expr, uppers: Iterator[bool]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    args = tuple(_chosen_in(arg, uppers) for arg in expr.args)
    if expr.op in ("pm", "mp"):
        return args[0] if (expr.op == "pm") == next(uppers) else Call("neg", args)
    return Call(expr.op, args)
