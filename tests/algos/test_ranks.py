"""Several ranks: what they play, where they write, how they stop, and that none is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rema_agents.episodes import read_episodes
from tests.algos.steps import steps_of

FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "8"]
FLAGS += ["--eval-steps", "0", "--num-completions-to-print", "0"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "DS_ACCELERATOR": "cpu"}


def free_port() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return str(sock.getsockname()[1])


def by_hand(*argv: str, second: tuple[str, ...] = ()) -> list[subprocess.Popen[str]]:
    """Two ranks without any launcher, so that nobody but they themselves can end the other.

    Args:
        second: flags of the second one alone.
    """
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", "algos.grpo", *FLAGS, *argv, *(second if rank else ())],
            env=ENV
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def metrics(run: Path) -> list[dict[str, Any]]:
    return [{n: v for n, v in line.items() if not n.startswith(("time/", "step_time"))} for line in steps_of(run)]


def until(ready: Path, ranks: list[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + 200
    while not ready.exists() and time.monotonic() < deadline and all(rank.poll() is None for rank in ranks):
        time.sleep(0.02)
    assert ready.exists(), [rank.communicate()[1] for rank in ranks if rank.poll() is not None]


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps of ZeRO-3 on two ranks, started by torchrun, every weight really parted."""
    folder = tmp_path_factory.mktemp("ranks")
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0}
    (folder / "zero3.json").write_text(json.dumps({"zero_optimization": zero}))
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    argv = ["--deepspeed", str(folder / "zero3.json"), "--max-steps", "4", "--save-steps", "2"]
    argv = [*start, "-m", "algos.grpo", *FLAGS, *argv, "--output-dir", str(folder / "run")]
    done = subprocess.run(argv, env=ENV, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("evaluation after step 0") == 1
    return folder


def test_two_ranks_play_the_episodes_of_one_and_keep_groups_whole(parted: Path, tmp_path: Path) -> None:
    from algos.grpo import main

    main([*FLAGS, "--max-steps", "4", "--save-steps", "0", "--output-dir", str(tmp_path / "one")])
    two, one = (
        list(read_episodes(run / "episodes" / "step-000001.jsonl")) for run in (parted / "run", tmp_path / "one")
    )
    assert [e.group for e in two] == [n // 4 for n in range(16)]
    assert [e.dialogue for e in two] == list(range(16))
    assert [e.transcript for e in two] == [e.transcript for e in one]
    first, alone = metrics(parted / "run")[0], metrics(tmp_path / "one")[0]
    assert first == {name: pytest.approx(value, rel=2e-3, abs=1e-4) for name, value in alone.items()}


def test_every_rank_publishes_whole_weights_from_zero_3(parted: Path, embedded: Path) -> None:
    lines = metrics(parted / "run")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert max(line["sampling/logp_gap_max"] for line in lines) < 1e-4
    for version in range(4):
        episodes = read_episodes(parted / "run" / "episodes" / f"step-{version + 1:06d}.jsonl")
        assert {call.completion.weight_version for e in episodes for call in e.calls} == {version}
    final = load_file(parted / "run" / "final" / "policy" / "model.safetensors")
    whole = load_file(embedded / "model.safetensors")
    assert {n: w.shape for n, w in final.items()} == {n: w.shape for n, w in whole.items()}


def test_one_file_of_random_states_for_every_rank(parted: Path) -> None:
    states = parted / "run" / "checkpoint-2" / "trainer" / "random"
    assert sorted(path.name for path in states.iterdir()) == ["rank-000.json", "rank-001.json"]


def test_deepspeeds_launcher_goes_on_bit_for_bit(parted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(parted / "run", run)
    shutil.rmtree(run / "checkpoint-4")
    (run / "latest").write_text("checkpoint-2")
    start = [sys.executable, "-m", "deepspeed.launcher.runner", "--num_accelerators", "2", "--master_port", free_port()]
    argv = ["--deepspeed", str(parted / "zero3.json"), "--max-steps", "4", "--save-steps", "2"]
    argv += ["--output-dir", str(run), "--resume-from-checkpoint", "latest"]
    argv = [*start, "--module", "algos.grpo", *FLAGS, *argv]
    done = subprocess.run(argv, env=ENV, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"resumed from {run / 'checkpoint-2'}, after step 2" in done.stdout
    assert metrics(run) == metrics(parted / "run")
    resumed, straight = (load_file(r / "final" / "policy" / "model.safetensors") for r in (run, parted / "run"))
    assert all(torch.equal(resumed[name], weight) for name, weight in straight.items())


def test_another_number_of_ranks_is_refused_where_state_is_parted(
    parted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    argv = ["--deepspeed", str(parted / "zero3.json"), "--output-dir", str(parted / "run")]
    with pytest.raises(SystemExit) as exit_:
        main([*FLAGS, *argv, "--resume-from-checkpoint", "latest"])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert "was written by 2 ranks with ZeRO stage 3 and cannot be taken up by 1 rank with ZeRO stage 3: " in said
    assert f"--model-name-or-path {parted / 'run' / 'checkpoint-4'}" in said


def test_problems_that_do_not_divide_by_ranks_are_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(SystemExit) as exit_:
        main([*FLAGS, "--output-dir", str(tmp_path / "run")])
    assert exit_.value.code == 2
    assert "--problems-per-step 4 does not divide by 3 ranks" in capsys.readouterr().err


def test_a_rank_that_dies_ends_the_other_within_seconds_with_one_message(tmp_path: Path) -> None:
    ranks = by_hand("--max-steps", "100000", "--output-dir", str(tmp_path / "run"))
    until(tmp_path / "run" / "episodes" / "step-000002.jsonl", ranks)
    ranks[1].kill()
    start = time.monotonic()
    _, said = ranks[0].communicate(timeout=60)
    assert time.monotonic() - start < 20
    assert ranks[0].returncode == 1
    assert said.splitlines()[-1] == "rank 0: another rank has died, so this run ends"
    assert "Traceback" not in said
    ranks[1].communicate()


def test_a_rank_that_fails_while_it_loads_ends_the_other(embedded: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(embedded, tmp_path / "broken")
    with (broken / "model.safetensors").open("r+b") as weights:
        weights.truncate(1000)
    argv = ("--preset", "embedded", "--zero-stage", "3", "--output-dir", str(tmp_path / "run"))
    ranks = by_hand(*argv, second=("--model-name-or-path", str(broken)))
    _, why = ranks[1].communicate(timeout=200)
    start = time.monotonic()
    _, said = ranks[0].communicate(timeout=60)
    assert time.monotonic() - start < 20
    assert [rank.returncode for rank in ranks] == [1, 2]
    assert f"rank 1: {broken}" in why.splitlines()[-1]
    assert said.splitlines()[-1] == "rank 0: another rank has died, so this run ends"


def test_sigterm_to_one_rank_saves_and_ends_both_with_143(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ranks = by_hand("--max-steps", "100000", "--save-steps", "0", "--output-dir", str(run))
    until(run / "episodes" / "step-000002.jsonl", ranks)
    ranks[1].send_signal(signal.SIGTERM)
    out, _ = ranks[0].communicate(timeout=60)
    ranks[1].communicate(timeout=60)
    assert [rank.returncode for rank in ranks] == [143, 143]
    (saved,) = run.glob("checkpoint-*")
    assert out.splitlines()[-1].endswith(f"what was done is in {saved}")
    assert len(metrics(run)) == int(saved.name.removeprefix("checkpoint-"))
