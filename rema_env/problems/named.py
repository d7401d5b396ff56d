"""Problems by name: a procedural family, a set of the catalogue, a file, or the hub.

    load("math500"), load("gsm8k_test@main"), load("chains-4"), load("my/file.parquet")

A set of the catalogue is read from the folder that REMA_DATA names where a file `<name>.parquet` lies there, else from
where it is published.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rema_env.problems import Problems
from rema_env.problems.arithmetic import arithmetic
from rema_env.problems.catalogue import CATALOGUE, Known
from rema_env.problems.chains import chains
from rema_env.problems.files import GoldFault, load_problems, problems_of
from rema_env.problems.lazy import lazy_parquet
from rema_env.problems.listed import Listed
from rema_env.problems.pairs import Orders, arithmetic_pairs, in_orders, load_pairs, pairs_of
from rema_env.problems.ranks import ranks
from rema_env.problems.sources import hub_table
from rema_env.problems.streamed import streamed, streamed_pairs
from rema_env.problems.tables import Row, Table
from rema_env.transcript import Problem

log = logging.getLogger(__name__)

FAMILIES: dict[str, Callable[..., Any]] = {
    "arithmetic": arithmetic,
    "chains": chains,
    "ranks": ranks,
    "arithmetic-pairs": arithmetic_pairs,
}
LAZY_BYTES = 2**28  # a parquet file above this is read a block at a time, as it is drawn from
_FAMILY = re.compile(rf"({'|'.join(FAMILIES)})(?:-(\d+))?(?:-(train|heldout))?")


def load(
    name: str | Path,
    *,
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
    split: str = "train",
    streaming: bool = False,
) -> Problems:
    """The problems that a name stands for.

    Args:
        name: a procedural family with its level (`chains-4`, `arithmetic-2-heldout`), `reasoning-gym/TASK`, a set of
            the catalogue, with a revision if wanted (`math500@main`), a file (a parquet file above 256 MiB is read a
            block at a time, as it is drawn from), a folder, or a name on the hub (`owner/set@revision:split`).
        question_column, answer_column, gold_fault, split: for files and the hub, as `load_problems`.
        streaming: read files and the hub as they are drawn from; see `Streamed`. What is small anyway is not.

    Raises:
        ValueError: where the name leads nowhere, or a set cannot be had; the message names an alternative.
    """
    text = _named(name)
    if family := _FAMILY.fullmatch(text):
        return _of_family(family)
    if text.startswith("reasoning-gym/"):
        from rema_env.problems.reasoning import gym_task

        return gym_task(text.removeprefix("reasoning-gym/"))
    known, _, revision = text.partition("@")
    path = Path(name)
    if known in CATALOGUE and not path.exists():
        if CATALOGUE[known].kind == "pairs":
            raise ValueError(f"{known} holds pairs to be judged, no problems: judge_v0 plays them")
        return load_known(known, revision or None)
    given: dict[str, Any] = {
        "question_column": question_column, "answer_column": answer_column, "gold_fault": gold_fault
    }  # fmt: skip
    is_parquet = path.suffix.lower() == ".parquet" and path.is_file()
    if is_parquet and (streaming or path.stat().st_size > LAZY_BYTES):
        return lazy_parquet(path, **given)
    try:
        return streamed(name, **given, split=split) if streaming else load_problems(name, **given, split=split)
    except ValueError as error:
        close = difflib.get_close_matches(known.lower(), [*CATALOGUE, *FAMILIES])
        if close and not path.exists():
            raise ValueError(f"{error}; is {' or '.join(close)} meant?") from error
        raise


def _named(name: str | Path) -> str:
    if not isinstance(name, (str, Path)):
        raise ValueError(f"a data set is named by a text or a path, got {name!r:.60}")
    return str(name)


def _of_family(named: re.Match[str]) -> Problems:
    make, level, part = FAMILIES[named[1]], named[2], named[3]
    source: Problems = make(int(level), split=part) if level else make(split=part)
    return source


def load_known(name: str, revision: str | None = None, *, orders: Orders = "both") -> Listed:
    """A set of the catalogue, from the REMA_DATA folder or from where it is published. Errors as `load`."""
    known = CATALOGUE[name]
    folder = os.environ.get("REMA_DATA")
    if folder and revision is None and (file := Path(folder, f"{name}.parquet")).is_file():
        return load_pairs(file, orders=orders) if known.kind == "pairs" else load_problems(file)
    if revision is None and not known.pinned:
        log.warning("%s is read at %s, the beginning of a commit whose whole name is not known", name, known.revision)
    fixed = revision or known.revision
    try:
        tables = [hub_table(known.address(fixed), known.split, fixed, config) for config in known.configs or (None,)]
    except ValueError as error:
        place = f"the folder that REMA_DATA names ({folder})" if folder else "a folder named by REMA_DATA"
        raise ValueError(
            f"{name} cannot be had from {known.address(fixed)}; put {name}.parquet into {place}, or use"
            f" {known.instead} instead ({error})"
        ) from error
    if known.kind == "pairs":
        return Listed(name, in_orders([pair for table in tables for pair in pairs_of(table)], orders))
    return Listed(name, [problem for table in tables for problem in _problems(name, known, table)])


def load_pairs_named(name: str | Path, orders: Orders = "both", *, streaming: bool = False) -> Problems:
    """Pairs to be judged: a set of the catalogue, the family `arithmetic-pairs`, a file, or a name on the hub.

    Args:
        name, orders: as of `load_pairs`.
        streaming: as of `load`.

    Raises:
        ValueError: as `load_pairs`, and for a known set or a family that holds no pairs.
    """
    text = _named(name)
    known, _, revision = text.partition("@")
    family = _FAMILY.fullmatch(text)
    if family and family[1] == "arithmetic-pairs":
        return _of_family(family)
    if Path(name).exists() or not (family or known in CATALOGUE):
        return streamed_pairs(name, orders=orders) if streaming else load_pairs(name, orders=orders)
    if family or CATALOGUE[known].kind != "pairs":
        held = ", ".join(k for k, v in CATALOGUE.items() if v.kind == "pairs")
        raise ValueError(f"{name} holds problems, no pairs to be judged; {held}, arithmetic-pairs do")
    return load_known(known, revision or None, orders=orders)


def _problems(name: str, known: Known, table: Table) -> Iterator[Problem]:
    """The table's rows as problems, with the set's own columns and its own way of writing answers."""

    def rows(columns: Sequence[str]) -> Iterable[Row]:
        return ({**row, known.answer: known.gold(row.get(known.answer))} for row in table.rows(columns))

    made = Table(name, table.columns, rows)
    return problems_of(made, question_column=known.question, answer_column=known.answer)
