"""Whole runs of the embedded model: what they leave on disk; that they repeat, resume, stop well, and learn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rema_agents.episodes import read_episodes
from tests.algos.steps import steps_of

SMALL = ["--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "16", "--eval-steps", "0"]
TIMES = ("time/", "step_time")


def grpo(folder: Path, *argv: str) -> dict[str, Any]:
    """Run the command in this process; returns the summary."""
    from algos.grpo import main

    main([*SMALL, "--output-dir", str(folder), *argv])
    return dict(json.loads((folder / "summary.json").read_text()))


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "algos.grpo", "--env", "math_v0", *SMALL, *argv]


def metrics(folder: Path) -> list[dict[str, float]]:
    """The metrics of the steps without the seconds."""
    return [{name: value for name, value in line.items() if not name.startswith(TIMES)} for line in steps_of(folder)]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "policy" / "model.safetensors")


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps in one go, with a checkpoint after two."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    grpo(folder, "--max-steps", "4", "--save-steps", "2")
    return folder


def test_an_evaluation_due_after_the_last_step_is_the_final_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = grpo(tmp_path / "run", "--max-steps", "2", "--eval-steps", "2")
    said = capsys.readouterr().out
    assert said.count("evaluation after step 2") == 1
    assert metrics(tmp_path / "run")[-1]["eval/heldout/accuracy"] == summary["accuracy_after"]
    assert summary["accuracy_greedy_after"] is not None


def test_a_run_leaves_everything_that_it_made(straight: Path) -> None:
    names = {path.name for path in straight.iterdir()}
    assert names >= {"config.yaml", "metrics.jsonl", "summary.json", "latest", "best", "final", "checkpoint-2"}
    assert (straight / "latest").read_text() == "checkpoint-4"
    assert not [name for name in names if name.endswith((".tmp", ".old"))]
    for folder in ("best", "final", "checkpoint-4"):
        assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
            path.name for path in (straight / folder / "policy").iterdir()
        }
    assert any((straight / "tensorboard").iterdir())


def test_the_summary_says_what_it_cost_and_what_came_of_it(straight: Path) -> None:
    summary = json.loads((straight / "summary.json").read_text())
    assert (summary["seed"], summary["steps"]) == (0, 4)
    assert summary["train_seconds"] > 0
    for name in ("accuracy_before", "accuracy_after", "accuracy_greedy_before", "accuracy_greedy_after"):
        assert 0 <= summary[name] <= 1
    assert summary["best_step"] in (0, 4)


def test_the_evaluations_before_the_first_step_and_after_the_last_are_logged_with_their_steps(straight: Path) -> None:
    lines = [json.loads(line) for line in (straight / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((straight / "summary.json").read_text())
    accuracy, greedy = "eval/heldout/accuracy", "eval/heldout/accuracy_greedy"
    assert lines[0] == {"step": 0, accuracy: summary["accuracy_before"], greedy: summary["accuracy_greedy_before"]}
    told = {line["step"]: (line[accuracy], line[greedy]) for line in lines[1:] if accuracy in line}
    assert told == {4: (summary["accuracy_after"], summary["accuracy_greedy_after"])}
    events = EventAccumulator(str(straight / "tensorboard")).Reload()
    drawn = {event.step: event.value for event in events.Scalars(accuracy)}
    assert drawn == pytest.approx({0: summary["accuracy_before"], 4: summary["accuracy_after"]})


def test_every_step_logs_rewards_lengths_endings_gradient_and_seconds(straight: Path) -> None:
    lines = steps_of(straight)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line["grad_norm"] > 0
        assert line["sampling/logp_gap_max"] < 1e-4
        assert line["meta/completions/mean_length"] > line["reasoner/completions/mean_length"] > 0
        assert sum(value for name, value in line.items() if name.startswith("endings/")) == pytest.approx(1)
        parts = sum(value for name, value in line.items() if name.startswith("time/"))
        assert 0.8 * line["step_time"] < parts <= line["step_time"]


def test_episodes_are_kept_with_ids_versions_and_pay(straight: Path) -> None:
    steps = [list(read_episodes(straight / "episodes" / f"step-{n:06d}.jsonl")) for n in (1, 2, 3, 4)]
    assert [len(episodes) for episodes in steps] == [16] * 4
    for version, episodes in enumerate(steps):
        assert {call.completion.weight_version for e in episodes for call in e.calls} == {version}
        assert [e.group for e in episodes] == [n // 4 for n in range(16)]
        assert all(len(e.calls) == len(e.transcript.turns) for e in episodes)
    assert steps[0][0].problem != steps[1][0].problem
    assert list(read_episodes(straight / "evaluation" / "heldout-step-000000.jsonl"))


def test_the_same_seed_gives_the_same_run_and_another_seed_another(straight: Path, tmp_path: Path) -> None:
    grpo(tmp_path / "again", "--max-steps", "4", "--save-steps", "0")
    assert metrics(tmp_path / "again") == metrics(straight)
    again, first = weights(tmp_path / "again" / "final"), weights(straight / "final")
    assert all(torch.equal(again[name], weight) for name, weight in first.items())
    grpo(tmp_path / "other", "--max-steps", "1", "--seed", "1", "--save-steps", "0")
    assert metrics(tmp_path / "other")[0] != metrics(straight)[0]


def test_a_resumed_run_is_the_run_that_never_stopped(straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    grpo(folder, "--max-steps", "2", "--save-steps", "2")
    grpo(folder, "--max-steps", "4", "--save-steps", "2", "--resume-from-checkpoint", "latest")
    assert metrics(folder) == metrics(straight)
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("reward")] == [1, 2, 3, 4]
    assert [event.step for event in events.Scalars("eval/heldout/accuracy")] == [0, 4]
    resumed, first = weights(folder / "final"), weights(straight / "final")
    assert all(torch.equal(resumed[name], weight) for name, weight in first.items())


def test_resuming_where_there_is_no_checkpoint_yet_starts_from_the_beginning_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grpo(tmp_path / "run", "--max-steps", "1", "--resume-from-checkpoint", "latest")
    assert "there is no checkpoint in" in capsys.readouterr().out
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1]


def test_a_checkpoint_as_model_starts_fresh_from_its_weights_alone(straight: Path, tmp_path: Path) -> None:
    shape = ["--preset", "embedded", "--model-name-or-path", str(straight / "checkpoint-2")]
    grpo(tmp_path / "run", *shape, "--max-steps", "1", "--save-steps", "0")
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1]


def test_only_the_newest_checkpoints_are_kept_when_asked(tmp_path: Path) -> None:
    grpo(tmp_path / "run", "--max-steps", "3", "--save-steps", "1", "--save-total-limit", "1")
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-3"]


def test_separate_weights_and_one_role_trained_change_that_role_alone(tmp_path: Path, embedded: Path) -> None:
    grpo(tmp_path / "run", "--team", "separate", "--train", "reasoner", "--max-steps", "1", "--save-steps", "1")
    final, start = tmp_path / "run" / "final", load_file(embedded / "model.safetensors")
    reasoner = load_file(final / "reasoner" / "model.safetensors")
    assert any(not torch.equal(reasoner[name], weight) for name, weight in start.items())
    meta = load_file(final / "meta" / "model.safetensors")
    assert all(torch.equal(meta[name], weight) for name, weight in start.items())
    one, *others = (tmp_path / "run" / n / "meta" / "model.safetensors" for n in ("best", "checkpoint-1", "final"))
    assert all(other.samefile(one) for other in others), "what does not change is on the disk once"
    assert not one.samefile(embedded / "model.safetensors")


def test_the_first_line_names_the_preset_and_the_second_the_batch(tmp_path: Path) -> None:
    argv = command("--max-steps", "0", "--output-dir", str(tmp_path / "run"))
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "preset: embedded"
    assert lines[1].startswith("4 problems x 4 episodes x 2 roles = 32 rows a step, 2 optimizer steps of about 16 rows")
    assert lines[-1] == f"run folder: {tmp_path / 'run'}"
    assert "held-out accuracy" in lines[-2]
    assert done.stderr == ""


def test_ctrl_c_saves_what_has_been_done_and_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = command("--max-steps", "100000", "--save-steps", "0", "--output-dir", str(folder))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ}) as run:
        deadline = time.monotonic() + 120
        third = folder / "episodes" / "step-000003.jsonl"
        while run.poll() is None and not third.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    saved = sorted(folder.glob("checkpoint-*"))
    assert len(saved) == 1
    assert out.splitlines()[-1].endswith(f"what was done is in {saved[0]}")
    steps = int(saved[0].name.removeprefix("checkpoint-"))
    assert steps >= 2
    assert len(metrics(folder)) == steps


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--env", "chess_v0"], "there is no environment 'chess_v0'; there are"),
        (["--dataset-name", "EMPTY"], "empty.jsonl"),
        (["--dataset-name", "COLUMNS"], "columns.parquet: no answer column (answer, "),
        (["--dataset-name", "COLUMNS"], " among its columns question, label_text; name it with answer_column"),
        (["--dataset-name", "ANSWER"], "answer.jsonl"),
        (["--train", "critic"], "there is no role 'critic'; there are: meta, reasoner"),
        (["--model-name-or-path", "FOLDER"], "holds no model"),
        (["--model-name-or-path", "TEMPLATE"], "has no chat template"),
        (["--system-prompts", "nowhere.yaml"], "--system-prompts nowhere.yaml: there is no such file"),
        (["--resume-from-checkpoint", "FOLDER"], "is no checkpoint of a run"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2_before_any_model_is_loaded(
    argv: list[str], said: str, tmp_path: Path, embedded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    bad = {
        "EMPTY": ("empty.jsonl", ""),
        "ANSWER": ("answer.jsonl", '{"question": "x", "answer": ""}\n'),
    }
    values = {"FOLDER": str(tmp_path)}
    for key, (name, text) in bad.items():
        (tmp_path / name).write_text(text)
        values[key] = str(tmp_path / name)
    values["COLUMNS"] = str(tmp_path / "columns.parquet")
    pq.write_table(pa.table({"question": ["1+1?"], "label_text": ["2"]}), values["COLUMNS"])
    template = tmp_path / "template"
    template.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (template / name).write_bytes((embedded / name).read_bytes())
    values["TEMPLATE"] = str(template)
    with pytest.raises(SystemExit) as exit_:
        main([*SMALL, "--output-dir", str(tmp_path / "run"), *(values.get(arg, arg) for arg in argv)])
    assert exit_.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_folder_that_holds_a_run_is_not_written_over(straight: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from algos.grpo import main

    with pytest.raises(SystemExit):
        main(["--output-dir", str(straight)])
    assert "holds a run already: name a new folder; training goes on in it with --resume" in capsys.readouterr().err


def test_the_command_without_flags_learns_and_both_agents_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos import evaluate
    from algos.grpo import main

    folder = tmp_path / "run"
    main(["--env", "math_v0", "--seed", "0", "--output-dir", str(folder), "--eval-steps", "0", "--save-steps", "0"])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy_before"] <= 0.50
    assert summary["accuracy_after"] >= max(0.85, summary["accuracy_before"] + 0.35)
    capsys.readouterr()
    evaluate.main([str(folder), "--cross-play"])
    rows = {
        cells[1].strip(): [float(cell) for cell in cells[2:4]]
        for line in capsys.readouterr().out.splitlines()
        if len(cells := line.split("│")) == 5
    }
    trained = rows["after"][1]
    assert trained == summary["accuracy_after"] or trained == pytest.approx(summary["accuracy_after"], abs=5e-4)
    assert trained - rows["after, another problem's plan"][1] >= 0.40
    assert trained - rows["before"][1] >= 0.10
