"""What a data set's name stands for: a file, a folder or a pattern of files, or a set on the hub.

sums.jsonl, folder, folder/*.parquet, owner/set, owner/set/part, owner/set@revision, owner/set:test
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rema_env.problems.tables import READERS, Row, Table, file_table

# CSV is none of them: the package would read 073 as 73.
_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json"}
_HUB_NAME = re.compile(r"([^/:@\s]+(?:/[^/:@\s]+)?)(?:/([^/:@\s]+))?(?:@([^:@\s]+))?(?::(\S+))?")


@dataclass(frozen=True)
class HubName:
    """A set on the hub as it is written: `owner/set/part@revision:split`, all but the set left out where not needed."""

    name: str
    part: str | None = None
    revision: str | None = None
    split: str = "train"

    @classmethod
    def parse(cls, text: str, split: str = "train", revision: str | None = None) -> HubName:
        """What the text names, with split and revision where it names none. Raises ValueError for what is no name."""
        found = _HUB_NAME.fullmatch(text)
        if found is None or text[0] in "./~":
            raise ValueError(f"{text}: no such file or folder, nor a name on the hub (owner/set@revision:split)")
        return cls(found[1], found[2], found[3] or revision, found[4] or split)

    def __str__(self) -> str:
        return f"{self.name}{f'/{self.part}' if self.part else ''}:{self.split}"


def tables_of(source: str | Path, split: str = "train", revision: str | None = None) -> list[Table]:
    """The tables behind one source: a file, the files of a folder or pattern, or a data set on the hub.

    Raises:
        ValueError: where there is none, or it cannot be read.
    """
    if (paths := _paths(source)) is not None:
        return [file_table(path) for path in paths]
    named = HubName.parse(str(source), split, revision)
    return [hub_table(named.name, named.split, named.revision, named.part)]


def _paths(source: str | Path) -> list[Path] | None:
    """The files of a source; None where it names none of this machine."""
    if not str(source).strip():
        raise ValueError("the name of a data set is empty")
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        paths = sorted(p for p in path.iterdir() if p.suffix.lower() in READERS)
        if not paths:
            raise ValueError(f"{source}: no {', '.join(READERS)} file in this folder")
        return paths
    if any(c in str(source) for c in "*?[") and (found := sorted(glob.glob(str(source)))):
        return [Path(p) for p in found]
    if path.suffix.lower() in READERS:
        raise ValueError(f"{source}: no such file")
    return None


def hub_table(name: str, split: str = "train", revision: str | None = None, part: str | None = None) -> Table:
    """A data set on the hub, or a parquet or JSON Lines file at an https address.

    Raises:
        ValueError: where it cannot be had, with the way out.
    """
    if name.startswith("https://"):
        kind = "parquet" if name.endswith(".parquet") else "json"
        data = _dataset(name, kind, data_files=name, split="train")
    else:
        data = _dataset(f"{name}:{split}", name, part, split=split, revision=revision)
    return Table(f"{name}:{split}", tuple(data.column_names), lambda columns: data.select_columns(list(columns)))


def streamed_tables(source: str | Path, split: str = "train") -> list[Table]:
    """The same data as `tables_of` in tables that hold nothing: their rows are read while they are iterated over.

    Each is a shard: a file, or whatever part of the set the `datasets` package can open by itself.

    Raises:
        ValueError: as `tables_of`; what is wrong within a file, once it is read up to there.
    """
    if (paths := _paths(source)) is None:
        named = HubName.parse(str(source), split)
        name = str(named)
        data = _dataset(name, named.name, named.part, split=named.split, revision=named.revision, streaming=True)
    else:
        kinds = {path.suffix.lower() for path in paths}
        if len(kinds) != 1 or not kinds <= set(_BUILDERS):
            told = ", ".join(sorted(kinds))
            raise ValueError(f"{source}: files of one kind can be streamed ({', '.join(_BUILDERS)}), not {told}")
        name, builder = str(source), _BUILDERS[kinds.pop()]
        data = _dataset(name, builder, data_files=[str(path) for path in paths], split="train", streaming=True)
    count = data.num_shards
    with _read_on(name):
        columns = tuple(data.column_names or next(iter(data), ()))
    names = list(map(str, paths or ())) if count == len(paths or ()) else [f"{name}[{k}]" for k in range(count)]
    shards = (data.shard(count, k) for k in range(count))
    return [Table(name, columns, partial(_rows, name, shard)) for name, shard in zip(names, shards, strict=True)]


def _rows(name: str, data: Any, columns: Sequence[str]) -> Iterator[Row]:
    """The rows of a shard."""
    with _read_on(name):
        yield from data.select_columns(list(columns))


@contextmanager
def _read_on(name: str) -> Iterator[None]:
    """Says of what goes wrong in a stream which one it was. Raises ValueError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}: cannot be read on ({' '.join(str(error).split())})") from error


def _dataset(label: str, *arguments: Any, **how: Any) -> Any:
    """What `datasets.load_dataset` gives for the arguments."""
    try:
        import datasets
    except ImportError:
        raise ValueError(f"{label}: no such file; to read a set of that name, install the package datasets") from None
    try:
        return datasets.load_dataset(*arguments, **how)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{label}: neither a file nor to be had from the hub: {error}; another split is named behind the set"
            " (owner/set:test), another part before it (owner/set/part); a downloaded parquet, jsonl or csv file can be"
            " given by its path instead"
        ) from error
