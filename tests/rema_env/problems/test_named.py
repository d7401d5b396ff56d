"""Problems by name, and the catalogue. Tables of its columns stand in for the hub: no test needs a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rema_env.problems import Problems, named, sources
from rema_env.problems.catalogue import CATALOGUE, after_hashes, joined, last_box
from rema_env.problems.named import load, load_known
from rema_env.problems.tables import Table

ROW_OF: dict[str, dict[str, Any]] = {
    "math_train": {
        "problem": "q",
        "level": "Level 5",
        "type": "Algebra",
        "solution": r"\boxed{1} at first. At last \boxed{\frac12}.",
    },
    "math_train_lv3to5": {"question": "q", "groundtruth": r"\frac12", "prompt": "q, step by step", "ability": "math"},
    "math500": {"problem": "q", "solution": "...", "answer": r"\frac12", "subject": "Algebra", "level": 5},
    "gsm8k_train": {"question": "q", "answer": "2 + 3 = 5\n#### 1,005"},
    "judgebench": {"pair_id": "7f", "question": "q", "response_A": "a", "response_B": "b", "label": "B>A"},
    "olympiadbench_math": {"question": "q", "final_answer": ["$2$", "$-2$"], "solution": ["..."]},
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for the hub: every set has the one row above; notes what was asked for."""
    asked: dict[str, Any] = {}

    def table(name: str, split: str = "train", revision: str | None = None, config: str | None = None) -> Table:
        asked.update(name=name, split=split, revision=revision, config=config)
        (row,) = (row for known, row in ROW_OF.items() if CATALOGUE[known].address(revision or "") == name)
        return Table(f"{name}:{split}", tuple(row), lambda columns: [{c: row[c] for c in columns}])

    monkeypatch.delenv("REMA_DATA", raising=False)
    monkeypatch.setattr(named, "hub_table", table)
    return asked


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("math_train", r"\frac12"),
        ("math_train_lv3to5", r"\frac12"),
        ("math500", r"\frac12"),
        ("gsm8k_train", "1005"),
        ("olympiadbench_math", "2, -2"),
    ],
)
def test_a_set_is_read_with_its_own_columns_and_way_of_writing_answers(
    hub: dict[str, Any], name: str, answer: str
) -> None:
    source = load(name)
    problem = source.draw(0, 0)
    assert (problem.question, problem.answer, source.name) == ("q", answer, name)
    assert source.size == max(len(CATALOGUE[name].configs), 1)
    assert hub["revision"] == CATALOGUE[name].revision


def test_a_revision_behind_the_name_is_the_one_read(hub: dict[str, Any]) -> None:
    load("math500@abc123")
    assert hub == {"name": "HuggingFaceH4/MATH-500", "split": "test", "revision": "abc123", "config": None}


def test_a_revision_behind_the_name_of_a_set_that_is_a_file_changes_its_address(hub: dict[str, Any]) -> None:
    load("math_train_lv3to5@abc123")
    assert hub["name"] == "https://github.com/ziyuwan/ReMA-public/raw/abc123/data/MATH/train_lv3to5_8k.parquet"


def test_a_revision_that_is_no_whole_commit_is_told_in_one_line(
    hub: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    load("math500")
    load("math_train_lv3to5@abc123")
    assert not caplog.messages
    load("math_train_lv3to5")
    (line,) = caplog.messages
    assert "math_train_lv3to5 is read at 24b5b47, the beginning of a commit whose whole name is not known" in line


def test_every_other_revision_is_a_whole_commit() -> None:
    assert [name for name, known in CATALOGUE.items() if not known.pinned] == ["math_train_lv3to5"]


def test_judgebench_is_both_halves_and_a_pair_is_called_by_the_sets_own_name(hub: dict[str, Any]) -> None:
    source = load_known("judgebench", orders="given")
    assert hub["split"] == "gpt+claude"
    assert [p.id for p in source] == ["7f/BA"]


def test_a_set_that_cannot_be_had_names_its_alternative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone(*_: Any) -> Table:
        raise ValueError("it is gated")

    monkeypatch.setattr(named, "hub_table", gone)
    monkeypatch.setenv("REMA_DATA", str(tmp_path))
    message = (
        r"aime25 cannot be had from math-ai/aime25; put aime25.parquet into .*, or use aime24 instead \(it is gated\)"
    )
    with pytest.raises(ValueError, match=message):
        load("aime25")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_set_states_its_licence_and_an_alternative(name: str) -> None:
    known = CATALOGUE[name]
    assert known.licence
    assert known.instead in CATALOGUE or "by its path" in known.instead
    assert known.instead != name


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name != "olympiadbench_math"])
def test_a_prepared_folder_has_the_number_of_rows_that_the_catalogue_states(data: Path, name: str) -> None:
    source = load_known(name)
    assert source.size == CATALOGUE[name].rows * (2 if CATALOGUE[name].kind == "pairs" else 1)


@pytest.mark.parametrize("name", ["arithmetic-3", "chains-5-heldout", "ranks", "arithmetic-pairs-2"])
def test_a_family_is_named_with_level_and_part(name: str) -> None:
    source = load(name)
    assert isinstance(source, Problems)
    assert source.size is None
    assert source.name.startswith(name)


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"frage": "1+1?", "antwort": 2}')
    assert load(tmp_path / "x.jsonl", question_column="frage", answer_column="antwort").draw(0, 0).answer == "2"
    with pytest.raises(ValueError, match="steps must be 1 to 8, got 99"):
        load("chains-99")


@pytest.mark.parametrize(
    ("read", "cell", "answer"),
    [
        (after_hashes, "so 4\n#### -1,234", "-1234"),
        (after_hashes, None, None),
        (last_box, "no box", ""),
        (last_box, None, None),
        (joined, ["$x=1$"], "x=1"),
        (joined, "1", "1"),
    ],
)
def test_golden_answers_are_taken_out_of_their_cells(read: Any, cell: Any, answer: Any) -> None:
    assert read(cell) == answer


@pytest.mark.parametrize(("name", "meant"), [("MATH500", "math500"), ("gsm8k", "gsm8k_t"), ("chain", "chains")])
def test_a_name_that_is_nearly_one_is_answered_with_it(monkeypatch: pytest.MonkeyPatch, name: str, meant: str) -> None:
    def gone(*_: Any) -> Table:
        raise ValueError("no such set")

    monkeypatch.setattr(sources, "hub_table", gone)
    with pytest.raises(ValueError, match=f"no such set; is {meant}.* meant"):
        load(name)


def test_pairs_are_no_problems() -> None:
    with pytest.raises(ValueError, match="rewardbench holds pairs to be judged, no problems: judge_v0 plays them"):
        load("rewardbench")
