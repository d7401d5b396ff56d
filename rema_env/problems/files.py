"""Problems from a parquet, JSON Lines or CSV file, from a folder of them, or from the hub.

Everything that is wrong with a data set is said when it is loaded, with file, row and column; rows count from 0.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from rema_env.problems.catalogue import after_hashes
from rema_env.problems.listed import Listed
from rema_env.problems.sources import tables_of
from rema_env.problems.tables import Table
from rema_env.transcript import Problem

QUESTION_COLUMNS = ("question", "problem", "prompt", "query", "instruction", "input")
ANSWER_COLUMNS = (
    "answer", "final_answer", "solution_answer", "ground_truth", "groundtruth", "gold", "gold_answer", "target",
)  # fmt: skip
OPTIONAL_COLUMNS = ("id", "level", "subject", "source")
WORKED = re.compile(r"####[^\n#]*[^\s#]\s*\Z")
"""The end of a worked solution in GSM8K's format: `#### 72` closes it."""

log = logging.getLogger(__name__)

GoldFault = Callable[[str], "str | None"]


def load_problems(
    source: str | Path | Sequence[str | Path],
    *,
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
    split: str = "train",
    revision: str | None = None,
) -> Listed:
    """All problems of a data set, in file order.

    Args:
        source: a file (.parquet, .jsonl, .json, .csv), a folder or a pattern of such files, several of them, or a name
            on the hub, which is read through the `datasets` package.
        question_column, answer_column: the columns, where they have no usual name.
        gold_fault: what is wrong with a golden answer, or None; a grader's own `gold_fault` knows best.
        split, revision: for the hub only.

    Raises:
        ValueError: a file without rows or without the columns, or a row whose question or answer is missing, empty or
            no text; the message names file, row and column.
    """
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    tables = [table for one in sources for table in tables_of(one, split, revision)]
    problems = [
        problem
        for table in tables
        for problem in problems_of(
            table, question_column=question_column, answer_column=answer_column, gold_fault=gold_fault
        )
    ]
    return Listed(", ".join(dict.fromkeys(table.name for table in tables)), problems)


def problems_of(
    table: Table,
    *,
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
    first_row: int = 0,
    may_be_empty: bool = False,
    worked: bool | None = None,
) -> Iterator[Problem]:
    """The table's rows as problems. Only the columns that are needed are read. Errors as `load_problems`.

    Where the first answer is a worked solution in GSM8K's format, all have to be: what stands behind `####` is the
    golden answer.

    Args:
        table: where the rows come from.
        question_column, answer_column, gold_fault: as of `load_problems`.
        first_row: the number of the table's first row in its file.
        may_be_empty: whether a table without rows is none of the errors.
        worked: of a part of a file, whether the file's first answer is a worked solution (`first_is_worked`).
    """
    question, answer = _columns(table, question_column, answer_column)
    optional = [name for name in OPTIONAL_COLUMNS if name in table.columns and name not in (question, answer)]
    number = None
    for number, row in enumerate(table.rows([question, answer, *optional]), start=first_row):
        place = (table.name, number, answer)
        gold = text_of(row.get(answer), *place)
        worked = _is_worked(gold) if worked is None else worked
        if worked:
            _say_worked(table.name)
        given = {name: value for name in optional if (value := plain(row.get(name))) is not None}
        yield Problem(
            id=str(given.get("id", f"{table.stem}/{number}")),
            question=text_of(row.get(question), table.name, number, question),
            answer=gold_of(_final(gold, worked, *place), *place, gold_fault or never_equalled),
            level=level_of(given.get("level")),
            source=str(given.get("source", table.stem)),
            extra={"subject": given["subject"]} if "subject" in given else {},
        )
    if number is None and not may_be_empty:
        raise ValueError(f"{table.name}: the file has no rows")


def first_is_worked(table: Table, question_column: str | None, answer_column: str | None) -> bool | None:
    """Whether the table's first answer is a worked solution; None without rows. Errors as `load_problems`."""
    _, answer = _columns(table, question_column, answer_column)
    return next((_is_worked(str(row.get(answer))) for row in table.rows([answer])), None)


def _columns(table: Table, question_column: str | None, answer_column: str | None) -> tuple[str, str]:
    """The names of the columns that hold question and answer."""
    question = _column(table, "question", question_column, QUESTION_COLUMNS)
    answer = _column(table, "answer", answer_column, tuple(c for c in ANSWER_COLUMNS if c != question))
    if question == answer:
        raise ValueError(f"{table.name}: question and answer are both read from column {question!r}")
    return question, answer


def _column(table: Table, what: str, named: str | None, usual: Sequence[str]) -> str:
    """The name of the column that holds question or answer."""
    if named is not None and named not in table.columns:
        raise ValueError(f"{table.name}: there is no column {named!r}; the columns are {', '.join(table.columns)}")
    alike = {name.strip().lower(): name for name in reversed(table.columns)}
    exact = dict(zip(table.columns, table.columns, strict=True))
    found = named if named is not None else next(((alike | exact)[name] for name in usual if name in alike), None)
    if found is None:
        raise ValueError(
            f"{table.name}: no {what} column ({', '.join(usual)}) among its columns"
            f" {', '.join(table.columns) or '(none)'}; name it with {what}_column"
        )
    if table.columns.count(found) > 1:
        raise ValueError(f"{table.name}: more than one column is called {found!r}")
    return found


def plain(value: Any) -> Any:
    """A cell with integers kept integers: 73.0, as a column with a gap in it holds 73, is 73; NaN is None."""
    if isinstance(value, float):
        if value != value:
            return None
        return int(value) if value.is_integer() else value
    return value


def level_of(value: Any) -> int | str | None:
    """A difficulty: an integer, also where it is written as text (`5`, `Level 5`); else as it is written."""
    if value is None or isinstance(value, int):
        return value
    number = re.fullmatch(r"(?:level\s*)?(\d+)", str(value).strip(), re.IGNORECASE)
    return int(number[1]) if number else str(value)


def text_of(value: Any, file: str, row: int, column: str) -> str:
    """A question or answer as text. Raises ValueError where there is none."""
    value = plain(value)
    if value is None:
        raise ValueError(f"{file}, row {row}, column {column!r}: the cell is missing (null)")
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    number = is_whole or (isinstance(value, (float, Decimal)) and math.isfinite(value))
    if not number and not isinstance(value, str):
        raise ValueError(
            f"{file}, row {row}, column {column!r}: expected text or a number, got {type(value).__name__} {value!r:.60}"
        )
    text = str(value)
    if not text.strip():
        raise ValueError(f"{file}, row {row}, column {column!r}: the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"{file}, row {row}, column {column!r}"
        raise ValueError(f"{where}: the text is not valid Unicode ({error.reason})") from None
    return text


def _is_worked(answer: str) -> bool:
    return WORKED.search(answer) is not None


@cache
def _say_worked(file: str) -> None:
    """Said once of a file, in however many parts it is read."""
    log.warning("%s: its answers are worked solutions; what stands behind #### is taken as the golden answer", file)


def _final(answer: str, worked: bool, file: str, row: int, column: str) -> str:
    """The golden answer in a cell of a table whose first answer is a worked solution, or is none.

    Raises:
        ValueError: where this cell is otherwise than the first.
    """
    if _is_worked(answer) != worked:
        told = "ends with no #### ANSWER" if worked else f"ends with {WORKED.findall(answer)[0].strip()!r:.60}"
        raise ValueError(
            f"{file}, row {row}, column {column!r}: {answer!r:.60} {told}, unlike the answers before it;"
            " write all of them in one way"
        )
    return after_hashes(answer) if worked else answer


def gold_of(value: Any, file: str, row: int, column: str, gold_fault: GoldFault) -> str:
    """A golden answer as text. Raises ValueError where nothing could ever equal it, as with `???`."""
    text = text_of(value, file, row, column)
    if fault := gold_fault(text):
        raise ValueError(f"{file}, row {row}, column {column!r}: {text!r:.60} is no answer to be checked: {fault}")
    return text


def never_equalled(answer: str) -> str | None:
    """The fault of a golden answer that any grader would find, or None."""
    if answer.isascii() and not any(c.isalnum() for c in answer):
        return "it has neither a letter nor a digit"
    return None
