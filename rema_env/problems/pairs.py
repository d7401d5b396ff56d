"""Pairs of answers to be judged, as problems: which of the two is better, A or B?

The sides are part of the problem, so that every episode of a group judges the same. Formats: RewardBench
(arXiv:2403.13787) with columns prompt, chosen, rejected, and JudgeBench (arXiv:2410.12784) with question, response_A,
response_B, label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from rema_env.problems.arithmetic import Expression, arithmetic
from rema_env.problems.files import plain, text_of
from rema_env.problems.listed import Listed, distinct
from rema_env.problems.procedural import Procedural, Split
from rema_env.problems.sources import tables_of
from rema_env.problems.tables import Row, Table
from rema_env.transcript import Problem

Order = Literal["AB", "BA"]
Orders = Literal["both", "given", "shuffled"]

REWARDBENCH = ("prompt", "chosen", "rejected")
JUDGEBENCH = ("question", "response_A", "response_B", "label")
_KEPT = ("id", "pair_id", "subset", "section", "source", "level")
_LABELS: Mapping[str, Order] = {"A>B": "AB", "A": "AB", "[[A]]": "AB", "B>A": "BA", "B": "BA", "[[B]]": "BA"}


@dataclass(frozen=True)
class Pair:
    """Two answers to one question.

    Attributes:
        id: unique within its source.
        question: what was answered.
        better, worse: the answers.
        given: the order they stand in where they come from; `AB`: the better one is A.
        source: where it comes from.
        extra: subset and the like.
    """

    id: str
    question: str
    better: str
    worse: str
    given: Order = "AB"
    source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


def as_problem(pair: Pair, order: Order) -> Problem:
    """The pair with the better answer on side A (`AB`) or B (`BA`); the golden answer is that letter."""
    first, second = (pair.better, pair.worse) if order == "AB" else (pair.worse, pair.better)
    extra = {**pair.extra, "pair": pair.id, "order": order, "answer_a": first, "answer_b": second}
    return Problem(f"{pair.id}/{order}", pair.question, order[0], pair.extra.get("level"), pair.source, extra)


def swapped(problem: Problem) -> Problem:
    """The same pair with its sides exchanged. Raises ValueError for a problem that is no pair."""
    told = problem.extra
    if not {"pair", "order", "answer_a", "answer_b"} <= told.keys():
        raise ValueError(f"problem {problem.id!r:.60} is no pair of answers whose sides could be exchanged")
    order: Order = "BA" if told["order"] == "AB" else "AB"
    extra = {**told, "order": order, "answer_a": told["answer_b"], "answer_b": told["answer_a"]}
    return replace(problem, id=f"{told['pair']}/{order}", answer=order[0], extra=extra)


def in_orders(pairs: Iterable[Pair], orders: Orders) -> list[Problem]:
    """Each pair in both orders, one after the other; or once: as given, or with sides that a hash of its id decides.

    A pair whose id another one had before is called otherwise: RewardBench numbers each of its subsets by itself.
    """
    return [as_problem(pair, order) for pair in distinct(pairs) for order in orders_of(pair, orders)]


def orders_of(pair: Pair, orders: Orders) -> tuple[Order, ...]:
    """The orders in which a pair is judged; see `in_orders`."""
    if orders == "both":
        return "AB", "BA"
    if orders == "given":
        return (pair.given,)
    if orders == "shuffled":
        return (_by_hash(pair.id),)
    raise ValueError(f"orders must be both, given or shuffled, got {orders!r}")


def _by_hash(name: str) -> Order:
    return "AB" if hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 else "BA"


def load_pairs(
    source: str | Path | Sequence[str | Path],
    *,
    orders: Orders = "both",
    split: str = "train",
    revision: str | None = None,
) -> Listed:
    """All pairs of a file (or folder, pattern, several files, a name on the hub) in either format, as problems.

    Args:
        source, split, revision: as `load_problems`.
        orders: `both` gives every pair twice, sides swapped, as JudgeBench scores; `given` as the file has them
            (RewardBench: the better one is always A); `shuffled` once, by a hash of the pair's id.

    Raises:
        ValueError: where columns, texts or labels are missing; the message names file, row and column.
    """
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    tables = [table for one in sources for table in tables_of(one, split, revision)]
    pairs = [pair for table in tables for pair in pairs_of(table)]
    return Listed(", ".join(dict.fromkeys(table.name for table in tables)), in_orders(pairs, orders))


def pairs_of(table: Table, *, may_be_empty: bool = False) -> Iterator[Pair]:
    """The table's rows as pairs; `may_be_empty` as of `problems_of`. Errors as `load_pairs`."""
    columns, read = _format(table)
    if twice := [name for name in columns if table.columns.count(name) > 1]:
        raise ValueError(f"{table.name}: more than one column is called {twice[0]!r}")
    kept = [name for name in _KEPT if name in table.columns]
    number = -1
    for number, row in enumerate(table.rows([*columns, *kept])):
        texts = {name: text_of(row.get(name), table.name, number, name) for name in columns}
        question, better, worse, given = read(texts, f"{table.name}, row {number}")
        told = {name: value for name in kept if (value := plain(row.get(name))) is not None}
        names = [told.pop(column) for column in ("id", "pair_id") if column in told]
        name, origin = str(names[0] if names else f"{table.stem}/{number}"), str(told.pop("source", table.stem))
        yield Pair(name, question, better, worse, given, origin, told)
    if number < 0 and not may_be_empty:
        raise ValueError(f"{table.name}: the file has no rows")


_Read = Callable[[Row, str], tuple[str, str, str, Order]]


def _format(table: Table) -> tuple[tuple[str, ...], _Read]:
    """The columns of the table's format, and how to read a row of it."""
    if set(REWARDBENCH) <= set(table.columns):
        return REWARDBENCH, lambda row, _: (row["prompt"], row["chosen"], row["rejected"], "AB")
    if set(JUDGEBENCH) <= set(table.columns):
        return JUDGEBENCH, _judgebench
    raise ValueError(
        f"{table.name}: pairs need the columns {', '.join(REWARDBENCH)} or {', '.join(JUDGEBENCH)}; there are"
        f" {', '.join(table.columns) or '(none)'}"
    )


def _judgebench(row: Row, where: str) -> tuple[str, str, str, Order]:
    order = _LABELS.get(row["label"].strip())
    if order is None:
        raise ValueError(f"{where}, column 'label': expected A>B or B>A, got {row['label']!r:.40}")
    first, second = row["response_A"], row["response_B"]
    better, worse = (first, second) if order == "AB" else (second, first)
    return row["question"], better, worse, order


def arithmetic_pairs(operations: int = 2, split: Split | None = None) -> Procedural:
    """Pairs made by rule: an arithmetic problem, its right result and a wrong one, sides drawn."""
    arithmetic(operations)  # refuses an unknown level
    return Procedural("arithmetic-pairs", operations, arithmetic_pair, split)


def arithmetic_pair(rng: Random, operations: int) -> Problem:
    """One pair. The wrong result is that of plain left-to-right order where it differs, else another digit."""
    base = arithmetic(operations).draw(rng.randrange(2**32), 0)
    wrong = str(Expression.parse(base.question).plain_value())
    if wrong == base.answer:
        wrong = str((int(base.answer) + rng.randrange(1, 10)) % 10)
    right, wrong = f"The result is {base.answer}.", f"The result is {wrong}."
    pair = Pair(base.id, base.question, right, wrong, source="arithmetic-pairs", extra={"level": operations})
    return as_problem(pair, rng.choice(("AB", "BA")))
