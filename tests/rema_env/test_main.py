from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import rema_env
from rema_env import Problem, Transcript, registry
from rema_env.__main__ import main
from rema_env.problems.pairs import load_pairs
from rema_env.process import PROCESSES


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_list_names_every_environment_with_its_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "list")
    for name in ("math_v0: meta_0, reasoner_0", "judge_v0", "qa_v0", "FreeText(", "multi_turn", "chains", "math500"):
        assert name in out


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("name", ["math_v0", "judge_v0", "qa_v0"])
def test_show_plays_an_episode_that_is_paid(capsys: pytest.CaptureFixture[str], name: str, process: str) -> None:
    out = said(capsys, "show", name, "--process", process, "--seed", "2")
    assert "finished" in out
    assert "reasoner_0 1" in out
    assert out == said(capsys, "show", name, "--process", process, "--seed", "2")


def test_show_follows_the_steps_of_an_arithmetic_problem(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", "math_v0", "--dataset", "arithmetic-3")
    assert out.count("meta_0:") == 3
    assert "level 3" in out


def test_print_shows_what_was_said_in_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    env = rema_env.math_v0.raw_env(process="vrp")
    lines = []
    for answer in ("4", "5"):
        env.reset(options={"problem": {"question": "2+2?", "answer": "4"}})
        env.step(rf"\boxed{{{answer}}}")
        lines.append(json.dumps({"transcript": env.transcript.to_json(), "rewards": env.rewards}))
    (tmp_path / "episodes.jsonl").write_text("\n".join(lines))
    both = said(capsys, "print", str(tmp_path / "episodes.jsonl"))
    assert both.count("problem 2+2?") == 2
    only = said(capsys, "print", str(tmp_path / "episodes.jsonl"), "--number", "1")
    assert r"\boxed{5}" in only
    assert r"\boxed{4}" not in only
    assert "reasoner_0 0; golden answer: 4" in only


def test_split_pairs_writes_two_parts_that_can_be_read_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [{"prompt": f"q{k}", "chosen": "good", "rejected": "bad", "subset": "x"} for k in range(10)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["split-pairs", str(tmp_path / "pairs.jsonl"), "--test-size", "6", "--output-dir", str(tmp_path)]
    said(capsys, *arguments, "--split", "strict")
    train, test = (load_pairs(tmp_path / f"strict-{part}.jsonl", orders="given") for part in ("train", "test"))
    assert (len(train), len(test)) == (14, 6)
    assert not {p.question for p in train} & {p.question for p in test}
    assert all(p.extra[f"answer_{p.answer.lower()}"] == "good" for p in [*train, *test])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "chess_v0"], "there is no environment 'chess_v0'"),
        (["show", "math_v0", "--dataset", "nowhere.csv"], "nowhere.csv: no such file"),
        (["print", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["split-pairs", "nowhere.parquet", "--split", "loose"], "nowhere.parquet: no such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_line_that_is_no_episode_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"step": 1}\n')
    assert main(["print", str(tmp_path / "x.jsonl")]) == 2
    assert "x.jsonl, line 1: not an episode" in capsys.readouterr().err


def test_the_command_runs_without_anything_heavy() -> None:
    code = "import sys, rema_env.__main__ as m; m.main(['show', 'math_v0']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize(
    "line",
    ["5", '{"transcript": 5}', "\udcff", '{"problem": {"question": "q", "answer": "1"}, "turns": [], "rewards": 5}'],
)
def test_a_line_that_is_anything_else_is_named_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    (tmp_path / "x.jsonl").write_bytes(line.encode("utf-8", "surrogateescape"))
    assert main(["print", str(tmp_path / "x.jsonl")]) == 2
    assert "x.jsonl, line 1: not an episode" in capsys.readouterr().err


def test_print_reads_lines_that_hold_other_line_breaks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    transcript = Transcript(Problem("q", "q", "1")).said("reasoner_0", "one\u2028two\x85three")
    (tmp_path / "x.jsonl").write_text(json.dumps(transcript.to_json(), ensure_ascii=False), encoding="utf-8")
    assert "one\u2028two\x85three" in said(capsys, "print", str(tmp_path / "x.jsonl"))


def test_print_passes_over_blank_lines_and_the_mark_that_editors_leave(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = json.dumps(Transcript(Problem("q", "What?", "1")).to_json())
    (tmp_path / "x.jsonl").write_text(f"\n{line}\n\n", encoding="utf-8-sig")
    assert "What?" in said(capsys, "print", str(tmp_path / "x.jsonl"))


def test_a_known_set_is_parted_by_name_and_what_has_no_end_is_not(
    capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path
) -> None:
    flags = ["--split", "strict", "--test-size", "100", "--output-dir", str(tmp_path)]
    assert "strict-test.jsonl: 100 tuples" in said(capsys, "split-pairs", "judgebench", *flags)
    assert main(["split-pairs", "arithmetic-pairs", *flags]) == 2
    assert "arithmetic-pairs has no end that could be parted" in capsys.readouterr().err


def test_what_makes_no_environment_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["show", "json:dumps"]) == 2
    assert "json:dumps makes no environment from no arguments" in capsys.readouterr().err
    (tmp_path / "taken").write_text("")
    rows = [{"prompt": f"q{k}", "chosen": "good", "rejected": "bad"} for k in range(3)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["--split", "loose", "--test-size", "2", "--output-dir", str(tmp_path / "taken")]
    assert main(["split-pairs", str(tmp_path / "pairs.jsonl"), *arguments]) == 2
    assert "taken" in capsys.readouterr().err


def test_an_environment_that_does_not_load_is_listed_with_its_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        registry, "_offered", lambda: {"broken_v0": EntryPoint("broken_v0", "nowhere:env", "rema.envs")}
    )
    assert "broken_v0: environment 'broken_v0' is offered as nowhere:env, which does not load" in said(capsys, "list")


def test_a_reader_that_leaves_is_no_error_to_tell() -> None:
    command = [sys.executable, "-m", "rema_env", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
