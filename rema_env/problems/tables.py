"""Tables as they lie in parquet, JSON Lines and CSV files, in folders of them, or on the hub: columns and rows.

What cannot be read is said with the file's name, and the line where there is one.
"""

from __future__ import annotations

import csv
import glob
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
        name: the file, or the hub's name with its split; begins every message.
        columns: all columns there are.
        rows: the rows with only the columns asked for: `rows(columns)`.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str]], Iterable[Row]]


def tables_of(source: str | Path, split: str = "train", revision: str | None = None) -> list[Table]:
    """The tables behind one source: a file, the files of a folder or pattern, or a data set on the hub."""
    if not str(source).strip():
        raise ValueError("the name of a data set is empty")
    path = Path(source)
    if path.is_file():
        return [_file(path)]
    if path.is_dir():
        paths = sorted(p for p in path.iterdir() if p.suffix.lower() in _READERS)
        if not paths:
            raise ValueError(f"{source}: no {', '.join(_READERS)} file in this folder")
        return [_file(p) for p in paths]
    if any(c in str(source) for c in "*?[") and (found := sorted(glob.glob(str(source)))):
        return [_file(Path(p)) for p in found]
    if path.suffix.lower() in _READERS:
        raise ValueError(f"{source}: no such file")
    return [hub_table(str(source), split, revision)]


def _file(path: Path) -> Table:
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"{path}: expected a {', '.join(_READERS)} file")
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
                yield from batch.to_pylist()

    return Table(str(path), tuple(file.schema_arrow.names), rows)


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
