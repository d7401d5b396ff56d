from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rema_env.grading import Grader
from rema_env.grading.__main__ import main

from .test_math import PAIRS, POLICY, response


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def graded(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    captured = capsys.readouterr()
    return [json.loads(line) for line in captured.out.splitlines()], captured.err


def test_every_pair_scores_as_expected_through_the_command(tmp_path: Path) -> None:
    rows = [{"id": row["id"], "answer": row["answer"], "response": response(row)} for row in PAIRS]
    command = [sys.executable, "-m", "rema_env.grading", write(tmp_path / "rows.jsonl", rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in got] == [row["id"] for row in PAIRS]
    assert {row["id"]: row["score"] for row in got} == {r["id"]: POLICY.get(r["id"], r["expected"]) for r in PAIRS}
    assert set(got[0]) == {"id", "score", "outcome"}
    assert "264 graded" in done.stderr


def test_bad_rows_are_reported_with_their_line_and_the_rest_is_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"id": "a", "answer": "3", "response": r"\boxed{3}"}
    rows: list[Any] = [
        good, "{broken", "[1]", {"id": "b", "answer": "3"}, {"id": "c", "answer": "???", "response": "x"}, "",
        {"id": "d", "answer": 4, "response": r"\boxed{4}"}, {"id": "e", "answer": "4", "response": None}, "[" * 100_000,
        {"answer": "5", "response": "5"}, {"id": "f", "answer": True, "response": "x"},
    ]  # fmt: skip
    assert main([write(tmp_path / "rows.jsonl", rows)]) == 1
    lines, err = graded(capsys)
    assert [(line["id"], line["outcome"]) for line in lines] == [("a", "right"), ("d", "right"), (10, "no_answer")]
    for number in (2, 3, 4, 5, 8, 9, 11):
        assert f"line {number}: " in err
    assert "'response'" in err
    assert "'???'" in err
    assert "7 bad rows" in err


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_bytes(
        b'{"answer": "\xff", "response": ""}\n{"answer": "3", "response": "\\\\boxed{3}"}\n'
    )
    assert main([str(tmp_path / "rows.jsonl")]) == 1
    lines, err = graded(capsys)
    assert [line["score"] for line in lines] == [1.0]
    assert "line 1: not UTF-8" in err


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b'\xef\xbb\xbf{"answer": "3", "response": "\\\\boxed{3}"}\r\n')
    assert main([str(tmp_path / "rows.jsonl")]) == 0
    assert graded(capsys)[0] == [{"id": 1, "score": 1.0, "outcome": "right"}]


@pytest.mark.parametrize("answer", ["NaN", "Infinity", "1e400"])
def test_a_number_that_is_none_is_a_bad_row(tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str) -> None:
    row = f'{{"id": 1, "answer": {answer}, "response": "nan"}}'
    assert main([write(tmp_path / "rows.jsonl", [row])]) == 1
    assert "line 1: " in graded(capsys)[1]


@pytest.mark.parametrize(
    "option", ["--time-limit nan", "--time-limit inf", "--memory-limit inf", "--grader token_f1 --rtol 0.1"]
)
def test_an_option_without_sense_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main([write(tmp_path / "rows.jsonl", []), *option.split()]) == 2
    assert graded(capsys)[1].startswith("error: ")


def test_columns_and_graders_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], obedient: Grader) -> None:
    path = write(tmp_path / "rows.jsonl", [{"key": 7, "gold": "x", "output": "x"}])
    columns = ["--id-column", "key", "--answer-column", "gold", "--response-column", "output"]
    for grader in ("exact", "token_f1", "obedient_grader:grade"):
        assert main([path, *columns, "--grader", grader]) == 0
        assert graded(capsys)[0] == [{"id": 7, "score": 1.0, "outcome": "right"}]


def test_a_tolerance_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "answer": r"8.7 \times 10^{8}", "response": r"\boxed{871000000}"}])
    assert (main([path]), graded(capsys)[0][0]["score"]) == (0, 0.0)
    assert (main([path, "--rtol", "0.02"]), graded(capsys)[0][0]["score"]) == (0, 1.0)


def test_standard_input_is_read() -> None:
    row = json.dumps({"id": 1, "answer": "3", "response": r"\boxed{3}"})
    done = subprocess.run(
        [sys.executable, "-m", "rema_env.grading", "-"], input=row, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, json.loads(done.stdout)["score"]) == (0, 1.0)


def test_a_reader_that_leaves_early_ends_the_command_quietly(tmp_path: Path) -> None:
    rows = [{"id": k, "answer": "3", "response": r"\boxed{3}"} for k in range(20_000)]
    with subprocess.Popen(
        [sys.executable, "-m", "rema_env.grading", write(tmp_path / "rows.jsonl", rows)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.readline()
        command.stdout.close()
        assert b"Traceback" not in command.stderr.read()
        assert command.wait(timeout=30) == 1


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 2), ("> /dev/full", 2), ("2>&- > /dev/null", 0)])
def test_a_closed_or_full_output_is_no_traceback(tmp_path: Path, redirection: str, code: int) -> None:
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "answer": "3", "response": r"\boxed{3}"}])
    command = f"{shlex.quote(sys.executable)} -m rema_env.grading {shlex.quote(path)} {redirection}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["-", "--grader", "nonsense"], "package.module:function"),
        (["-", "--grader", "no.such:thing"], "no.such"),
        (["-", "--grader", "exact", "--rtol", "0.1"], "rtol"),
        (["-", "--workers", "0"], "at least 1"),
    ],
)
def test_a_command_that_cannot_work_says_why(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_no_code_in_a_file_is_ever_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "__import__('os').system('touch pwned')"
    rows = [
        {"id": 1, "answer": "3", "response": f"\\boxed{{{evil}}}"},
        {"id": 2, "answer": evil, "response": f"\\boxed{{{evil}}}"},
    ]
    main([write(tmp_path / "rows.jsonl", rows)])
    assert not (tmp_path / "pwned").exists()
