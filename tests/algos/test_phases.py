"""Phases: which problems are kept, in which order a phase goes through them, and that a resumed run keeps to them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from algos.config import ModelConfig, SamplingConfig, TrainConfig
from algos.grpo import main
from algos.phases import check_phases, in_passes, kept
from rema_agents.episodes import read_episodes
from rema_agents.types import Episode
from rema_env.transcript import Problem, Transcript
from tests.algos.steps import steps_of

PHASES = "--process single_turn --team separate --train alternate:2 --first reasoner --phase-problems 12".split()
PHASES += "--phase-samples 4 --success-rate 0.2:0.8 --problems-per-step 4 --num-generations 4".split()
SHORT = "--eval-num-problems 4 --eval-steps 0 --num-completions-to-print 0 --seed 1".split()


def group(*scores: float) -> list[Episode]:
    problem = Problem(id="p", question="?", answer="1")
    return [Episode(problem, Transcript(problem, ()), (), {}, info={"score": score}) for score in scores]


def test_problems_that_are_solved_sometimes_are_kept_and_those_at_the_bounds_too() -> None:
    tried = [
        group(0, 0, 0, 0, 0),
        group(1, 0, 0, 0, 0),
        group(1, 1, 0, 0, 0),
        group(1, 1, 1, 1, 0),
        group(1, 1, 1, 1, 1),
    ]
    assert kept(tried, (0.2, 0.8)) == [1, 2, 3]
    assert kept(tried, (0.0, 0.3)) == [0, 1]


def test_every_pass_goes_through_all_problems_once_in_an_order_of_its_own() -> None:
    problems = [7, 11, 13, 17, 19]
    whole = in_passes(problems, 0, 15, seed=(3,))
    passes = [whole[:5], whole[5:10], whole[10:]]
    assert [sorted(one) for one in passes] == [problems] * 3
    assert passes[0] != passes[1]
    assert [n for first in range(0, 15, 3) for n in in_passes(problems, first, 3, seed=(3,))] == whole
    assert in_passes(problems, 0, 15, seed=(4,)) != whole
    assert Counter(in_passes(problems[:2], 2, 6, seed=(3,))) == {7: 3, 11: 3}


def run(folder: Path, *argv: str) -> list[dict[str, Any]]:
    main([*PHASES, *SHORT, "--output-dir", str(folder), *argv])
    return steps_of(folder)


def played(folder: Path, step: int) -> list[Episode]:
    return list(read_episodes(folder / "episodes" / f"step-{step:06d}.jsonl"))


def test_a_phase_trains_one_role_on_its_own_problems_and_goes_on_bit_for_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = run(tmp_path / "whole", "--max-steps", "3", "--save-steps", "0")
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("a phase of ")]
    sizes = [line["sampling/phase_problems"] for line in whole]
    assert [line.partition(" problems")[0] for line in said] == [
        f"a phase of reasoner_0 starts: {sizes[0]} of 12",
        f"a phase of meta_0 starts: {sizes[2]} of 12",
    ]
    assert 0 < sizes[0] == sizes[1] < 12
    assert ["reasoner/grad_norm" in line for line in whole] == [True, True, False]
    asked = [[e.problem.id for e in played(tmp_path / "whole", step)][::4] for step in (1, 2, 3)]
    assert len({*asked[0], *asked[1]}) == min(8, sizes[0])
    assert not {*asked[0], *asked[1]} & set(asked[2])
    run(tmp_path / "parts", "--max-steps", "1", "--save-steps", "1")
    parts = run(tmp_path / "parts", "--max-steps", "3", "--save-steps", "0", "--resume-from-checkpoint", "latest")
    for straight, resumed in zip(whole, parts, strict=True):
        names = [name for name in straight if not name.startswith(("time/", "step_time", "memory/", "rate/"))]
        assert {name: straight[name] for name in names} == {name: resumed[name] for name in names}
    assert [played(tmp_path / "parts", 3)] == [played(tmp_path / "whole", 3)]


@pytest.mark.parametrize(
    ("train", "sampling", "said"),
    [
        ("all", {"phase_problems": 8}, "--phase-problems needs phases: give --train alternate:N"),
        ("alternate:2", {"phase_problems": 8, "dynamic_sampling": True}, "give one of them"),
        ("all", {"success_rate": "0.2:0.8"}, "--success-rate 0.2:0.8 chooses nothing by itself"),
    ],
)
def test_flags_that_contradict_one_another_are_refused(train: str, sampling: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_phases(TrainConfig(model=ModelConfig(train=train), sampling=SamplingConfig(**sampling)))
