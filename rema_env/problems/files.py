"""Problems from a parquet, JSON Lines or CSV file, from a folder of them, or from the hub.

Everything that is wrong with a data set is said when it is loaded, with file, row and column; rows count from 0.
"""

from __future__ import annotations

import csv
import glob
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rema_env.problems.listed import Listed
from rema_env.transcript import Problem

QUESTION_COLUMNS = ("question", "problem", "prompt", "query", "instruction", "input")
ANSWER_COLUMNS = (
    "answer", "final_answer", "solution_answer", "ground_truth", "groundtruth", "gold", "gold_answer", "target",
)  # fmt: skip
OPTIONAL_COLUMNS = ("id", "level", "subject", "source")

Row = Mapping[str, Any]
GoldFault = Callable[[str], "str | None"]


@dataclass(frozen=True)
class Table:
    """Rows as they stand in one file, and where they come from.

    Attributes:
        name: the file, or the hub's name with its split; begins every message.
        columns: all columns there are.
        rows: the rows with only the columns asked for: `rows(columns)`.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str]], Iterable[Row]]


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


def tables_of(source: str | Path, split: str = "train", revision: str | None = None) -> list[Table]:
    """The tables behind one source: a file, the files of a folder or pattern, or a data set on the hub."""
    path = Path(source)
    if path.is_file():
        return [_file(path)]
    if path.is_dir():
        paths = sorted(p for p in path.iterdir() if p.suffix in _READERS)
        if not paths:
            raise ValueError(f"{source}: no {', '.join(_READERS)} file in this folder")
        return [_file(p) for p in paths]
    if any(c in str(source) for c in "*?[") and (found := sorted(glob.glob(str(source)))):
        return [_file(Path(p)) for p in found]
    if path.suffix in _READERS:
        raise ValueError(f"{source}: no such file")
    return [hub_table(str(source), split, revision)]


def problems_of(
    table: Table,
    *,
    question_column: str | None = None,
    answer_column: str | None = None,
    gold_fault: GoldFault | None = None,
    first_row: int = 0,
) -> Iterator[Problem]:
    """The table's rows as problems. Only the columns that are needed are read. Errors as `load_problems`.

    Args:
        table: where the rows come from.
        question_column, answer_column, gold_fault: as of `load_problems`.
        first_row: the number of the table's first row in its file.
    """
    question = _column(table, "question", question_column, QUESTION_COLUMNS)
    answer = _column(table, "answer", answer_column, tuple(c for c in ANSWER_COLUMNS if c != question))
    optional = [name for name in OPTIONAL_COLUMNS if name in table.columns and name not in (question, answer)]
    stem = Path(table.name).stem
    number = None
    for number, row in enumerate(table.rows([question, answer, *optional]), start=first_row):
        given = {name: value for name in optional if (value := plain(row.get(name))) is not None}
        yield Problem(
            id=str(given.get("id", f"{stem}/{number}")),
            question=text_of(row.get(question), table.name, number, question),
            answer=gold_of(row.get(answer), table.name, number, answer, gold_fault or never_equalled),
            level=level_of(given.get("level")),
            source=str(given.get("source", stem)),
            extra={"subject": given["subject"]} if "subject" in given else {},
        )
    if number is None:
        raise ValueError(f"{table.name}: the file has no rows")


def _column(table: Table, what: str, named: str | None, usual: Sequence[str]) -> str:
    """The name of the column that holds question or answer."""
    if named is not None:
        if named in table.columns:
            return named
        raise ValueError(f"{table.name}: there is no column {named!r}; the columns are {', '.join(table.columns)}")
    by_lower = {name.lower(): name for name in reversed(table.columns)}
    for name in usual:
        if name in by_lower:
            return by_lower[name]
    raise ValueError(
        f"{table.name}: no {what} column ({', '.join(usual)}) among its columns {', '.join(table.columns) or '(none)'};"
        f" name it with {what}_column"
    )


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
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
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


def _file(path: Path) -> Table:
    if path.suffix not in _READERS:
        raise ValueError(f"{path}: expected a {', '.join(_READERS)} file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")
    return _READERS[path.suffix](path)


def _parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path}: not a parquet file ({error})") from None

    def rows(columns: Sequence[str]) -> Iterator[Row]:
        for batch in file.iter_batches(columns=list(columns)):
            yield from batch.to_pylist()

    return Table(str(path), tuple(file.schema_arrow.names), rows)


def _json_lines(path: Path) -> Table:
    text = path.read_text(encoding="utf-8-sig")
    found = _json_array(path, text) if text.lstrip().startswith("[") else _json_rows(path, text)
    columns = tuple(dict.fromkeys(name for row in found for name in row))
    return Table(str(path), columns, lambda _: found)


def _json_array(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    for k, row in enumerate(found):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {k}: expected a JSON object, got {row!r:.60}")
    return found


def _json_rows(path: Path, text: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: expected a JSON object, got {line!r:.60}")
        found.append(row)
    return found


def _csv(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        found = list(reader)
        columns = tuple(reader.fieldnames or ())
    return Table(str(path), columns, lambda _: found)


_READERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".json": _json_lines,
    ".csv": _csv,
}


def hub_table(name: str, split: str = "train", revision: str | None = None, config: str | None = None) -> Table:
    """A data set on the hub, or a parquet or JSON Lines file at an https address.

    Raises:
        ValueError: where it cannot be had, with the way out.
    """
    try:
        import datasets
    except ImportError:
        raise ValueError(
            f"{name}: no such file; to read a data set of that name from the hub, install the package datasets"
        ) from None
    try:
        if name.startswith("https://"):
            data = datasets.load_dataset(
                "parquet" if name.endswith(".parquet") else "json", data_files=name, split="train"
            )
        else:
            data = datasets.load_dataset(name, config, split=split, revision=revision)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name}: neither a file nor to be had from the hub (split {split!r}): {error}; a downloaded parquet, jsonl"
            " or csv file can be given by its path instead"
        ) from error
    return Table(f"{name}:{split}", tuple(data.column_names), lambda columns: data.select_columns(list(columns)))
