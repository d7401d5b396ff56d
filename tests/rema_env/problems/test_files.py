"""Problems from files: what is read, what is left alone, and one clear message for every fault of a data set."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rema_env
from rema_env.problems import Problems
from rema_env.problems.files import load_problems
from rema_env.problems.listed import Listed
from rema_env.transcript import Problem

ROWS = [{"question": f"What is {k} + 1?", "answer": k + 1} for k in range(5)]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


every_format = pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json", ".csv"])


@every_format
def test_a_file_is_read_in_its_order(tmp_path: Path, suffix: str) -> None:
    found = load_problems(write(tmp_path / f"sums{suffix}", ROWS))
    assert isinstance(found, Problems)
    assert [p.answer for p in found] == ["1", "2", "3", "4", "5"]
    assert found[0] == Problem("sums/0", "What is 0 + 1?", "1", source="sums")
    assert (len(found), found.size) == (5, 5)


@every_format
def test_level_subject_id_and_source_are_kept_and_other_columns_ignored(tmp_path: Path, suffix: str) -> None:
    row = {"id": "a/7", "level": 3, "subject": "Algebra", "source": "here", "problem": "1?", "gold": "1", "noise": "[]"}
    (found,) = load_problems(write(tmp_path / f"x{suffix}", [row]))
    assert found == Problem("a/7", "1?", "1", 3, "here", {"subject": "Algebra"})


@pytest.mark.parametrize(("written", "level"), [(5, 5), ("Level 5", 5), ("5", 5), ("Level ?", "Level ?"), (None, None)])
def test_a_level_is_a_number_wherever_it_can_be(tmp_path: Path, written: Any, level: Any) -> None:
    (found,) = load_problems(write(tmp_path / "x.jsonl", [{"question": "q", "answer": 1, "level": written}]))
    assert found.level == level


@pytest.mark.parametrize("question", ["question", "problem", "prompt", "query", "Question"])
@pytest.mark.parametrize("answer", ["answer", "groundtruth", "ground_truth", "gold", "target", "solution_answer"])
def test_columns_are_found_by_their_usual_names(tmp_path: Path, question: str, answer: str) -> None:
    (found,) = load_problems(write(tmp_path / "x.jsonl", [{"other": "x", answer: "7", question: "3+4?"}]))
    assert (found.question, found.answer) == ("3+4?", "7")


def test_columns_can_be_named(tmp_path: Path) -> None:
    file = write(tmp_path / "x.csv", [{"question": "no", "answer": "no", "frage": "3+4?", "antwort": "7"}])
    (found,) = load_problems(file, question_column="frage", answer_column="antwort")
    assert (found.question, found.answer) == ("3+4?", "7")


# Numbers stay what they were.


def test_integers_stay_integers_in_a_column_that_holds_a_gap(tmp_path: Path) -> None:
    table = pa.table({"question": ["a", "b", "c"], "answer": pa.array([73.0, 0.5, 1e3]), "level": [5.0, None, 2.0]})
    pq.write_table(table, tmp_path / "x.parquet")
    found = load_problems(tmp_path / "x.parquet")
    assert [p.answer for p in found] == ["73", "0.5", "1000"]
    assert [p.level for p in found] == [5, None, 2]


@pytest.mark.parametrize("answer", [73, 73.0, "73"])
def test_integers_floats_and_text_are_accepted_as_answers(tmp_path: Path, answer: Any) -> None:
    (found,) = load_problems(write(tmp_path / "x.jsonl", [{"question": "q", "answer": answer}]))
    assert found.answer == "73"


def test_text_that_looks_like_a_number_is_left_alone(tmp_path: Path) -> None:
    (found,) = load_problems(write(tmp_path / "x.csv", [{"question": "q", "answer": "073.0"}]))
    assert found.answer == "073.0"


# Faults.


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question": "q", "answer": 1}, {"question": None, "answer": 1}], "row 1, column 'question': the cell is"),
        ([{"question": " \n", "answer": "1"}], "row 0, column 'question': the text is empty"),
        ([{"question": "q", "answer": None}], "row 0, column 'answer': the cell is missing"),
        ([{"question": "q", "answer": ""}], "row 0, column 'answer': the text is empty"),
        ([{"question": "q", "answer": float("nan")}], "row 0, column 'answer': the cell is missing"),
        ([{"question": "q", "answer": "???"}], r"row 0, column 'answer': '\?\?\?' is no answer to be checked"),
        ([{"question": "q", "answer": ["1"]}], "row 0, column 'answer': expected text or a number, got list"),
        ([{"question": "q", "answer": True}], "row 0, column 'answer': expected text or a number, got bool"),
        ([{"question": "q", "answer": float("inf")}], "row 0, column 'answer': expected text or a number, got float"),
        ([{"question": "q\ud800", "answer": "1"}], "row 0, column 'question': the text is not valid Unicode"),
        ([{"text": "q", "answer": "1"}], r"no question column \(question, .*\) among its columns text, answer"),
        ([{"question": "q", "label": "1"}], "no answer column .* question, label; name it with answer_column"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_file_row_and_column(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    file = write(tmp_path / "bad.jsonl", rows)
    with pytest.raises(ValueError, match=message) as caught:
        load_problems(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cells", [[None, None], ["", "q"]])
def test_a_prompt_column_without_prompts_is_named_with_its_first_row(tmp_path: Path, cells: list[Any]) -> None:
    pq.write_table(pa.table({"prompt": pa.array(cells), "answer": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x.parquet, row 0, column 'prompt': the (cell is missing|text is empty)"):
        load_problems(tmp_path / "x.parquet")


def test_what_closes_a_worked_solution_is_the_golden_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answers = ("48/2 = <<48/2=24>>24 clips.\n#### 72", "so #### 1,005\n", "#### 3, 4")
    path = write(tmp_path / "worked.jsonl", [{"question": "q", "answer": answer} for answer in answers])
    assert [p.answer for p in [*load_problems(path), *load_problems(path)]] == ["72", "1005", "3, 4"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: its answers are worked solutions; what stands behind #### is taken as the golden answer"
    ]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (["6*12 = 72\n#### 72", "24"], "row 1, column 'answer': '24' ends with no #### ANSWER, unlike the answers"),
        (["24", "6*12 = 72\n#### 72"], "row 1, column 'answer': .* ends with '#### 72', unlike the answers before"),
    ],
)
def test_worked_solutions_among_bare_answers_are_refused(tmp_path: Path, answers: list[str], message: str) -> None:
    path = write(tmp_path / "mixed.jsonl", [{"question": "q", "answer": answer} for answer in answers])
    with pytest.raises(ValueError, match=message):
        load_problems(path)


def test_an_answer_that_a_gap_turned_into_a_float_is_the_integer_and_the_gap_is_refused(tmp_path: Path) -> None:
    table = pa.table({"question": ["a", "b"], "answer": pa.array([73.0, None])})
    pq.write_table(table.slice(0, 1), tmp_path / "whole.parquet")
    assert [p.answer for p in load_problems(tmp_path / "whole.parquet")] == ["73"]
    pq.write_table(table, tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match=r"gap.parquet, row 1, column 'answer': the cell is missing"):
        load_problems(tmp_path / "gap.parquet")


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_number_is_what_was_written_in_however_many_bits_it_is_stored(tmp_path: Path, kind: pa.DataType) -> None:
    answers = pa.array([0.1, 73.0, 1e-7, 1e22], kind)
    pq.write_table(pa.table({"question": ["a", "b", "c", "d"], "answer": answers}), tmp_path / "x.parquet")
    assert [p.answer for p in load_problems(tmp_path / "x.parquet")] == ["0.1", "73", "1e-07", "1" + "0" * 22]


def test_a_parquet_file_with_other_columns_says_which_are_missing_and_which_there_are(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", [{"text": "1+1?", "reward_model": "rule", "answer": 2}])
    with pytest.raises(ValueError, match=r"x.parquet: no question column .* columns text, reward_model, answer; name"):
        load_problems(file)
    assert load_problems(write(tmp_path / "y.parquet", [{"question": "1+1?", "answer": 2}]))[0].answer == "2"


def test_a_null_in_a_parquet_file_is_named_too(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.parquet", [*ROWS, {"question": None, "answer": 3}])
    with pytest.raises(ValueError, match="row 5, column 'question': the cell is missing"):
        rema_env.math_v0(dataset=file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.parquet", b"", "the file is empty"),
        ("e.jsonl", b"", "the file is empty"),
        ("e.csv", b"question,answer\n", "the file has no rows"),
        ("e.json", b"[]", "the file has no rows"),
        ("e.parquet", b"PAR?", "not a parquet file"),
        ("e.jsonl", b'{"question": "q", "answer": "1"}\n{"question": ', "line 2: not JSON"),
        ("e.jsonl", b"[1, 2]", "row 0: expected a JSON object, got 1"),
        ("e.jsonl", b'"text"', "line 1: expected a JSON object"),
        ("e.txt", b"q", "expected a .parquet, .jsonl, .json, .csv file"),
        ("e.jsonl.gz", b"q", "expected a .parquet, .jsonl, .json, .csv file"),
        ("e.jsonl", b" \n\r\n", "the file has no rows"),
        ("e.csv", b"\n", "no question column"),
        ("e.jsonl", '{"question": "é", "answer": "1"}'.encode("latin-1"), "not text in UTF-8 .byte 14"),
        ("e.csv", "question,answer\né,1".encode("utf-16"), "not text in UTF-8 .byte 0"),
        ("e.jsonl", b"[" * 100_000, "line 1: JSON that cannot be read"),
        ("e.jsonl", b'{"a": 1}\n{"answer": ' + b"9" * 5000 + b"}", "line 2: JSON that cannot be read"),
        ("e.csv", b"question,answer\nq,1\nWhat is 1, 2?,3\n", "row 1: 3 cells in 2 columns; a text with a comma"),
        ("e.csv", b'question,answer\n"q,1\n', "not CSV .unexpected end of data"),
        ("e.csv", b"question,answer,answer\nq,1,2\n", "more than one column is called 'answer'"),
    ],
)
def test_a_file_that_holds_no_problems_says_so(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_problems(tmp_path / name)


def test_an_empty_parquet_table_says_so(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"question": pa.array([], pa.string()), "answer": pa.array([], pa.string())}), tmp_path / "e.parquet"
    )
    with pytest.raises(ValueError, match="the file has no rows"):
        load_problems(tmp_path / "e.parquet")


def test_a_named_column_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    file = write(tmp_path / "x.csv", ROWS)
    with pytest.raises(ValueError, match="there is no column 'frage'; the columns are question, answer"):
        rema_env.math_v0(dataset=file, question_column="frage")


def test_a_missing_file_and_a_folder_without_any_say_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone.jsonl: no such file"):
        load_problems(tmp_path / "gone.jsonl")
    with pytest.raises(ValueError, match=r"no .parquet, .jsonl, .json, .csv file in this folder"):
        load_problems(tmp_path)


def test_files_of_one_split_may_differ_in_the_columns_that_are_not_needed(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    write(tmp_path / "b.parquet", [{"extra": [1.5], "question": "more?", "answer": 9}])
    for source in (tmp_path, str(tmp_path / "*.parquet"), [tmp_path / "a.parquet", tmp_path / "b.parquet"]):
        found = load_problems(source)
        assert [p.id for p in found][-2:] == ["a/4", "b/0"]
        assert found[-1].answer == "9"


def test_a_file_is_never_changed(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", ROWS)
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    env = rema_env.math_v0(dataset=file)
    env.reset(seed=0)
    kept = list(env.unwrapped.problems)
    env.step("[FINISH]")
    env.step(r"\boxed{1}")
    assert list(env.unwrapped.problems) == kept
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before


# Draws.


def test_each_epoch_draws_every_problem_once_in_an_order_of_its_own() -> None:
    source = Listed("ten", [Problem(str(k), "q", "a") for k in range(10)])
    epochs = [[source.draw(3, 10 * e + k).id for k in range(10)] for e in range(4)]
    assert all(sorted(epoch) == [str(k) for k in range(10)] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert [source.draw(4, k).id for k in range(10)] != epochs[0]


def test_draws_are_the_same_in_any_process_and_order(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", ROWS)
    code = (
        "from rema_env.problems.files import load_problems\n"
        f"source = load_problems({str(file)!r})\n"
        "print([source.draw(5, k).id for k in (11, 3, 0, 7)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": h},
        ).stdout
        for h in ("1", "2")
    }
    source = load_problems(file)
    drawn = {k: source.draw(5, k).id for k in (0, 3, 7, 11)}
    assert outputs == {f"{[drawn[k] for k in (11, 3, 0, 7)]}\n"}


def test_a_source_without_problems_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing holds no problems"):
        Listed("nothing", [])


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.parquet", ROWS)
    whole = file.read_bytes()
    for damaged in (whole[:-20], b"PAR1" + b"\0" * 30 + whole[34:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"bad.parquet: not a parquet file, or a damaged one"):
            load_problems(file)


def test_two_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path: Path) -> None:
    columns = [pa.array(["q"]), pa.array(["1"]), pa.array(["2"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["question", "answer", "answer"]), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="more than one column is called 'answer'"):
        load_problems(tmp_path / "x.parquet")


def test_one_column_cannot_be_question_and_answer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="question and answer are both read from column 'question'"):
        load_problems(write(tmp_path / "x.csv", ROWS), answer_column="question")


def test_what_people_write_by_hand_is_read(tmp_path: Path) -> None:
    """Marks and blanks that editors leave, a heading in capitals, and a question longer than csv's own limit."""
    (tmp_path / "X.CSV").write_bytes(b'\xef\xbb\xbfQuestion, question, answer\r\nQ, "q, or", 7\r\n\r\n')
    assert [(p.question, p.answer) for p in load_problems(tmp_path / "X.CSV")] == [("q, or", "7")]
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf\n{"question": "q", "answer": 7}\r\n\r\n')
    assert [(p.question, p.answer) for p in load_problems(tmp_path / "x.jsonl")] == [("q", "7")]
    (tmp_path / "x.csv").write_text(f"question,answer\n{'x' * 200_000},7\n")
    assert len(load_problems(tmp_path / "x.csv")[0].question) == 200_000


def test_a_whole_number_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": "q", "answer": ' + "9" * 4000 + "}")
    assert load_problems(tmp_path / "x.jsonl")[0].answer == "9" * 4000


def test_decimals_are_numbers_too(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", [{"question": "q", "answer": Decimal("7.50")}])
    assert load_problems(file)[0].answer == "7.50"


def test_an_id_that_stands_twice_is_made_unique(tmp_path: Path) -> None:
    rows = [{"id": 1, "question": f"q{k}", "answer": "1"} for k in range(3)]
    assert [p.id for p in load_problems(write(tmp_path / "x.jsonl", rows))] == ["1", "1#2", "1#3"]
    rows = [{"id": name, "question": "q", "answer": "1"} for name in ("x#2", "x", "x", "x#2")]
    assert [p.id for p in load_problems(write(tmp_path / "y.jsonl", rows))] == ["x#2", "x", "x#3", "x#2#2"]


def test_a_list_holds_problems_only() -> None:
    with pytest.raises(ValueError, match="mine holds what is no Problem: 'q'"):
        Listed("mine", ["q"])  # type: ignore[list-item]
