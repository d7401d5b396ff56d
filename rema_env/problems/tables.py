"""Tables as they lie in parquet, JSON Lines and CSV files: columns and rows.

What cannot be read is said with the file's name, and the line where there is one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows as they stand in one file, and where they come from.

    Attributes:
        name: the file, or the set with its split; begins every message.
        columns: all columns there are.
        rows: the rows with only the columns asked for: `rows(columns)`.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str]], Iterable[Row]]

    @property
    def stem(self) -> str:
        """The name without folders and ending; rows are called by it and their number."""
        path = Path(self.name)
        return path.stem if path.suffix.lower() in READERS else path.name


def file_table(path: Path) -> Table:
    """The table in one file. Raises ValueError where there is none that can be read, saying where it ends."""
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"{path}: expected a {', '.join(READERS)} file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")
    try:
        return read(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 (byte {error.start}: {error.reason})") from None


@contextmanager
def parquet_faults(path: str | Path) -> Iterator[None]:
    """Says of what goes wrong in reading a parquet file which file it was. Raises ValueError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: not a parquet file, or a damaged one ({' '.join(str(error).split())})") from None


def _parquet(path: Path) -> Table:
    import pyarrow.parquet

    with parquet_faults(path):
        file = pyarrow.parquet.ParquetFile(path)

    def rows(columns: Sequence[str]) -> Iterator[Row]:
        with parquet_faults(path):
            for batch in file.iter_batches(columns=list(columns)):
                yield from rows_as_written(batch)

    return Table(str(path), tuple(file.schema_arrow.names), rows)


def rows_as_written(table: Any) -> list[Row]:
    """The rows of an Arrow table or batch; what was stored in 32 bits as 0.1 is 0.1 and not 0.10000000149011612."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if field.type == pa.float32():
            column = table.column(place).cast(pa.string()).cast(pa.float64())
            table = table.set_column(place, field.name, column)
    found: list[Row] = table.to_pylist()
    return found


def _json_lines(path: Path) -> Table:
    text = path.read_text(encoding="utf-8-sig")
    found = list(_json_array(path, text) if text.lstrip().startswith("[") else _json_rows(path, text))
    if not found:
        raise ValueError(f"{path}: the file has no rows")
    columns = tuple(dict.fromkeys(name for row in found for name in row))
    return Table(str(path), columns, lambda _: found)


def _json_array(path: Path, text: str) -> Iterator[dict[str, Any]]:
    for k, row in enumerate(_json(path, text)):
        if not isinstance(row, dict):
            raise ValueError(f"{path}, row {k}: expected a JSON object, got {row!r:.60}")
        yield row


def _json_rows(path: Path, text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            row = _json(path, line, number)
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: expected a JSON object, got {line!r:.60}")
            yield row


def _json(path: Path, text: str, line: int = 1) -> Any:
    """The value that a part of a file is, which begins on a line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {line + error.lineno - 1}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # an endless number, endless brackets
        raise ValueError(f"{path}, line {line}: JSON that cannot be read ({error})") from None


def _csv(path: Path) -> Table:
    usual = csv.field_size_limit(2**31 - 1)  # a question may be longer than csv thinks
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True, strict=True) if row]
    except csv.Error as error:
        raise ValueError(f"{path}: not CSV ({error})") from None
    finally:
        csv.field_size_limit(usual)
    columns, *rows = rows or [[]]
    for k, row in enumerate(rows):
        if len(row) > len(columns):
            raise ValueError(
                f"{path}, row {k}: {len(row)} cells in {len(columns)} columns; a text with a comma needs quotes"
            )
    found = [dict(zip(columns, row, strict=False)) for row in rows]
    return Table(str(path), tuple(columns), lambda _: found)


READERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".json": _json_lines,
    ".csv": _csv,
}
