from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rema_env
from rema_env.problems import Problems, named
from rema_env.problems.files import load_problems
from rema_env.problems.lazy import Lazy, lazy_parquet
from rema_env.problems.listed import Listed
from rema_env.transcript import Problem


@pytest.fixture
def file(tmp_path: Path) -> Path:
    table = pa.table({"question": [f"q{k}" for k in range(25)], "answer": list(range(25)), "big": ["x" * 100] * 25})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=10)
    return tmp_path / "big.parquet"


def test_it_holds_what_the_file_holds(file: Path) -> None:
    source = lazy_parquet(file)
    assert isinstance(source, Problems)
    assert source.size == 25
    assert list(source) == list(load_problems(file))


def test_each_epoch_draws_every_problem_once_in_an_order_of_its_own(file: Path) -> None:
    source = lazy_parquet(file)
    epochs = [[source.draw(1, 25 * e + k).id for k in range(25)] for e in range(3)]
    assert all(sorted(epoch) == sorted(p.id for p in source) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [lazy_parquet(file).draw(1, k).id for k in (30, 3, 24)] == [epochs[1][5], epochs[0][3], epochs[0][24]]


def test_neighbouring_draws_read_a_block_once() -> None:
    reads: list[int] = []

    def read(block: int) -> tuple[Problem, ...]:
        reads.append(block)
        return tuple(Problem(f"{block}/{k}", "q", "a") for k in range(5))

    source = Lazy("ten blocks", [5] * 10, read)
    for index in range(50):
        source.draw(0, index)
    assert sorted(reads) == list(range(10))


def test_a_fault_is_named_with_its_row_in_the_file(tmp_path: Path) -> None:
    table = pa.table({"question": ["q"] * 12, "answer": [1] * 11 + [None]})
    pq.write_table(table, tmp_path / "bad.parquet", row_group_size=5)
    with pytest.raises(ValueError, match="row 11, column 'answer': the cell is missing"):
        list(lazy_parquet(tmp_path / "bad.parquet"))


def test_a_big_file_is_read_lazily_by_its_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(named.load(file), Listed)
    monkeypatch.setattr(named, "LAZY_BYTES", 100)
    source = named.load(file)
    assert isinstance(source, Lazy)
    assert rema_env.math_v0(dataset=file).unwrapped.problems.draw(0, 3) == source.draw(0, 3)


def test_a_golden_answer_that_the_grader_cannot_read_is_named_by_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["q", "r"], "answer": ["1", "{"]}), tmp_path / "x.parquet")
    source = lazy_parquet(tmp_path / "x.parquet", gold_fault=lambda gold: "a brace" if gold == "{" else None)
    with pytest.raises(ValueError, match=r"row 1, column 'answer': '\{' is no answer to be checked: a brace"):
        source.draw(0, 0)


@pytest.mark.parametrize("answers", [["so #### 3", "3"], ["3", "so #### 3"]])
def test_a_block_has_answers_of_the_kind_of_the_first_one(tmp_path: Path, answers: list[str]) -> None:
    pq.write_table(pa.table({"question": ["q", "r"], "answer": answers}), tmp_path / "x.parquet", row_group_size=1)
    source = lazy_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"row 1, column 'answer': .* unlike the answers before it"):
        list(source)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR?")
    with pytest.raises(ValueError, match=r"x.parquet: not a parquet file"):
        lazy_parquet(tmp_path / "x.parquet")


def test_a_source_pickles_and_reads_on(file: Path) -> None:
    env = rema_env.math_v0(lazy_parquet(file))
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    for each in (env, twin):
        each.reset()
    assert twin.last() == env.last()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({name: pa.array([], pa.string()) for name in ("question", "answer")}), tmp_path / "e.parquet"
    )
    with pytest.raises(ValueError, match="holds no problems"):
        lazy_parquet(tmp_path / "e.parquet")
