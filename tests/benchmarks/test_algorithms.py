"""The benchmark of the algorithms takes up runs that are there, and its table says mean and spread."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import algorithms
from benchmarks.algorithms import ALGORITHMS, TEAMS, spread, table


def test_runs_that_are_there_are_not_run_again_and_all_of_them_stand_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for algorithm in ALGORITHMS:
        for team in TEAMS:
            for seed in (0, 1):
                folder = tmp_path / f"{algorithm} {team}-{seed}".replace(", ", "-").replace(" ", "-")
                folder.mkdir()
                figures = {"accuracy_before": 0.4, "accuracy_after": 0.8 + seed / 10, "accuracy_greedy_after": 0.9}
                (folder / "summary.json").write_text(json.dumps(figures))
    algorithms.main(["--output-dir", str(tmp_path), "--seeds", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(ALGORITHMS) * len(TEAMS)
    assert "| grpo, token ratio | shared | 2 | 0.400 ± 0.000 | 0.850 ± 0.071 | 0.900 ± 0.000 |" in lines


def test_one_seed_has_no_spread() -> None:
    assert spread([0.5]) == "0.500"
    run = {"accuracy_before": 0.1, "accuracy_after": 0.2, "accuracy_greedy_after": 0.3}
    assert table({("a", "b"): [run]}).splitlines()[-1] == "| a | b | 1 | 0.100 | 0.200 | 0.300 |"
