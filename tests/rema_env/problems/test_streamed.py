"""Streaming through the `datasets` package, from folders of this machine: no test needs a network."""

from __future__ import annotations

import json
import pickle
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rema_env
from rema_env.problems import Problems, sources
from rema_env.problems.files import load_problems
from rema_env.problems.lazy import Lazy
from rema_env.problems.named import load
from rema_env.problems.sources import HubName
from rema_env.problems.streamed import Streamed, mixed, streamed
from rema_env.transcript import Problem

SHARDS, ROWS = 3, 7


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three parquet files of seven rows each."""
    for k in range(SHARDS):
        rows = {"question": [f"q{k}.{i}" for i in range(ROWS)], "answer": [10 * k + i for i in range(ROWS)]}
        pq.write_table(pa.table(rows), tmp_path / f"part-{k}.parquet")
    return tmp_path


def ids(source: Problems, count: int, first: int = 0) -> list[str]:
    return [source.draw(1, first + k).id for k in range(count)]


@pytest.mark.parametrize("buffer", [2, 4, 100])
def test_an_epoch_draws_what_the_files_hold_once_each_in_an_order_of_its_own(folder: Path, buffer: int) -> None:
    source = streamed(folder, buffer=buffer)
    assert isinstance(source, Problems)
    assert source.size is None
    epochs = [ids(source, SHARDS * ROWS, SHARDS * ROWS * e) for e in range(3)]
    assert all(sorted(epoch) == sorted(p.id for p in load_problems(folder)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [source.draw(2, k).id for k in range(ROWS)] != epochs[0][:ROWS]


def test_a_draw_is_decided_by_seed_and_index_in_any_order_of_calls(folder: Path) -> None:
    source, order = streamed(folder, buffer=5), ids(streamed(folder, buffer=5), 50)
    assert [source.draw(1, k).id for k in (49, 3, 30, 30, 0)] == [order[k] for k in (49, 3, 30, 30, 0)]
    assert pickle.loads(pickle.dumps(source)).draw(1, 33).id == order[33]


def test_looking_back_further_than_is_kept_reads_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Streamed, "KEPT", 2)
    source, order = streamed(folder), ids(streamed(folder), 30)
    assert [source.draw(1, k).id for k in (29, 28, 5)] == [order[k] for k in (29, 28, 5)]


def test_no_more_is_read_than_the_buffer_and_what_was_drawn() -> None:
    read: list[int] = []

    def shard() -> Iterator[Problem]:
        for k in range(1000):
            read.append(k)
            yield Problem(str(k), "q", "a")

    source = Streamed("one shard", (shard,), buffer=10)
    for index in range(20):
        source.draw(0, index)
    assert len(read) == 30


def test_mixing_holds_a_buffer_and_loses_nothing() -> None:
    problems = [Problem(str(k), "q", "a") for k in range(50)]
    out = list(mixed(iter(problems), 10, np.random.default_rng(0)))
    assert sorted(out, key=lambda p: int(p.id)) == problems
    assert all(int(p.id) <= place + 10 for place, p in enumerate(out))


def test_what_asks_the_same_as_a_problem_left_out_is_never_drawn_and_is_counted_once(folder: Path) -> None:
    evaluated = [Problem("x", " Q1.3", "?"), Problem("y", "q2.0\n", "?"), Problem("z", "never asked", "?")]
    source = streamed(folder, buffer=4).without(evaluated)
    assert source.left_out == 0
    per_epoch = SHARDS * ROWS - 2
    epochs = [[source.draw(1, per_epoch * e + k).question for k in range(per_epoch)] for e in range(2)]
    rest = {p.question for p in load_problems(folder)} - {"q1.3", "q2.0"}
    assert all(sorted(epoch) == sorted(rest) for epoch in epochs)
    assert source.left_out == 2
    assert pickle.loads(pickle.dumps(source)).draw(1, 7).question == epochs[0][7]
    with pytest.raises(ValueError, match=rf"{folder} holds no problems but those left out"):
        streamed(folder).without(load_problems(folder)).draw(0, 0)


def test_a_hub_name_streams(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder stands in for the hub: the same package reads both."""
    asked: list[Any] = []
    real = sources._dataset

    def hub(label: str, name: str, part: str | None, **how: Any) -> Any:
        asked.append((label, name, part, how["split"], how["revision"], how["streaming"]))
        return real(label, str(folder), split="train", streaming=how["streaming"])

    monkeypatch.setattr(sources, "_dataset", hub)
    source = rema_env.math_v0(dataset="owner/big.set/en@v2:test", streaming=True).unwrapped.problems
    assert asked == [("owner/big.set/en:test", "owner/big.set", "en", "test", "v2", True)]
    drawn = [source.draw(0, k) for k in range(SHARDS * ROWS)]
    assert sorted(p.id for p in drawn) == [f"en:test[{k}]/{i}" for k in range(SHARDS) for i in range(ROWS)]
    assert {p.question: p.answer for p in drawn}["q2.3"] == "23"


def test_a_parquet_file_is_read_by_its_blocks_and_what_is_small_anyway_is_not_streamed(folder: Path) -> None:
    assert isinstance(load(folder / "part-0.parquet", streaming=True), Lazy)
    assert isinstance(load(folder, streaming=True), Streamed)
    assert load("chains-2", streaming=True).name == "chains-2"


def test_json_lines_stream_too(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"frage": f"q{k}", "gold": k}) + "\n" for k in range(3)))
    source = load(tmp_path / "x.jsonl", question_column="frage", streaming=True)
    assert {source.draw(0, k).id for k in range(3)} == {"x/0", "x/1", "x/2"}


def test_what_is_wrong_with_columns_and_first_row_is_said_at_once_the_rest_when_it_is_read(folder: Path) -> None:
    with pytest.raises(ValueError, match="there is no column 'frage'; the columns are question, answer"):
        load(folder, question_column="frage", streaming=True)
    pq.write_table(pa.table({"question": ["q"] * 3, "answer": ["1", None, "2"]}), folder / "part-3.parquet")
    source = load(folder, streaming=True)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"part-3.parquet, row 1, column 'answer': the cell is missing"):
            source.draw(0, 0)


def test_a_file_that_breaks_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": "q", "answer": "1"}\n{"question": ')
    with pytest.raises(ValueError, match=r"x\.jsonl: cannot be read on"):
        load(tmp_path / "x.jsonl", streaming=True).draw(0, 0)


def test_empty_shards_are_passed_over_and_a_set_of_nothing_is_refused(tmp_path: Path) -> None:
    for name, lines in (("a", ""), ("b", '{"question": "q", "answer": 1}\n')):
        (tmp_path / f"{name}.jsonl").write_text(lines)
    assert {load(tmp_path, streaming=True).draw(0, k).id for k in range(3)} == {"b/0"}
    with pytest.raises(ValueError, match="nothing holds no problems"):
        Streamed("nothing", (partial(iter, ()),)).draw(0, 0)
    with pytest.raises(ValueError, match="buffer must hold at least 1 problem, got 0"):
        Streamed("nothing", (), buffer=0)


def test_files_of_two_kinds_or_of_cells_without_a_type_are_not_streamed_and_a_way_of_reading_needs_a_data_set(
    folder: Path,
) -> None:
    (folder / "x.csv").write_text("question,answer\nq,1\n")
    for source in (folder, folder / "x.csv"):
        with pytest.raises(
            ValueError, match=r"files of one kind can be streamed \(.parquet, .jsonl, .json\), not .csv"
        ):
            load(source, streaming=True)
    with pytest.raises(ValueError, match="qa_v0: streaming tells how a dataset is read, and there is none"):
        rema_env.qa_v0(streaming=True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("owner/set", HubName("owner/set")),
        ("set", HubName("set")),
        ("owner/set/main:test", HubName("owner/set", "main", None, "test")),
        ("owner/set@refs/pr/1", HubName("owner/set", None, "refs/pr/1")),
        ("owner/set-v1.5@abc:train[:10%]", HubName("owner/set-v1.5", None, "abc", "train[:10%]")),
    ],
)
def test_a_name_on_the_hub_says_part_revision_and_split(text: str, named: HubName) -> None:
    assert HubName.parse(text) == named


@pytest.mark.parametrize("text", ["a/b/c/d", "./missing", "../x", "/absolute", "~/x", "two words", "x@", ":test"])
def test_what_is_neither_a_path_nor_a_name_on_the_hub_is_said_without_asking_the_hub(text: str) -> None:
    with pytest.raises(ValueError, match="no such file or folder, nor a name on the hub"):
        load(text)


def test_memory_stays_flat_over_a_long_stream() -> None:
    def shard() -> Iterator[Problem]:
        for k in range(20_000):
            yield Problem(str(k), "q" * 100, "a")

    source = Streamed("long", (shard,), buffer=100)
    source.draw(0, 5_000)
    tracemalloc.start()
    source.draw(0, 19_000)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 2_000_000
