"""Group terms on groups counted by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from algos import grpo
from algos.group_pay import check_group_rewards, pay_groups
from rema_agents.episodes import read_episodes
from rema_agents.types import Episode
from rema_env.transcript import Ending, Problem, Transcript

PROBLEM = Problem("p", "q", "1")


def episode(answer: str, group: int, score: float) -> Episode:
    info = {"outcome": "right" if score else "wrong", "score": score, "extracted": answer}
    rewards = {"meta_0": score, "reasoner_0": score}
    return Episode(PROBLEM, Transcript(PROBLEM, (), Ending.FINISHED), (), rewards, {}, info, group=group)


GROUPS = [episode("1", 0, 1.0), episode("1", 0, 1.0), episode("2", 0, 0.0), episode("3", 1, 0.0)]


def test_a_group_term_is_paid_by_its_weight_and_noted_unweighted() -> None:
    paid = pay_groups(GROUPS, {"majority_share": 0.3})
    assert [e.rewards["meta_0"] for e in paid] == pytest.approx([1.2, 1.2, 0.2, 0.3])
    assert [e.terms["reasoner_0"]["majority_share"] for e in paid] == pytest.approx([2 / 3] * 3 + [1.0])
    assert GROUPS[0].rewards["meta_0"] == 1.0


def test_a_group_term_may_pay_one_role_alone() -> None:
    paid = pay_groups(GROUPS, {"meta/majority_share": 0.3})
    assert paid[2].rewards == {"meta_0": pytest.approx(0.2), "reasoner_0": 0.0}
    assert "reasoner_0" not in paid[2].terms


def test_without_group_terms_episodes_stay_as_they_are() -> None:
    assert pay_groups(GROUPS, {}) == GROUPS


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"unity": 1}, "there is no term 'unity'; there are majority_share"),
        ({"majority_share": "a lot"}, "finite number"),
        ({"mata/majority_share": 1}, "there is no role 'mata'; there are meta, reasoner"),
    ],
)
def test_what_cannot_be_paid_is_said(weights: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_group_rewards(weights, ["meta", "reasoner"])


FAIR = """
from rema_env import Grade, Outcome

def grade(problem, text):
    return Grade(1.0, Outcome.RIGHT, problem.answer)
"""
PAID = ["--group-rewards", '{"position_consistency": 0.5}', "--process", "vrp"]


def test_position_consistency_is_paid_over_both_orders_of_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grader finds every judge right, so in both orders all prefer the better answer, and all are consistent."""
    (tmp_path / "fair.py").write_text(FAIR)
    monkeypatch.syspath_prepend(str(tmp_path))
    steps = "--problems-per-step 3 --num-generations 4 --max-steps 1 --eval-steps 0 --save-steps 0".split()
    fair = ["--env", "judge_v0", "--grader", "fair:grade", "--output-dir", str(tmp_path / "run")]
    grpo.main([*PAID, *steps, *fair])
    episodes = list(read_episodes(tmp_path / "run" / "episodes" / "step-000001.jsonl"))
    assert [e.group for e in episodes] == [n // 4 for n in range(12)]
    for g in range(0, 12, 4):
        sides = [e.problem for e in episodes[g : g + 4]]
        assert len({problem.extra["pair"] for problem in sides}) == 1
        assert sorted(problem.extra["order"] for problem in sides) == ["AB", "AB", "BA", "BA"]
    assert {e.terms["reasoner_0"]["position_consistency"] for e in episodes} == {1.0}
    assert {e.rewards["reasoner_0"] - e.terms["reasoner_0"]["answer"] for e in episodes} == {0.5}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "plays half of each group with the sides exchanged, and problem 'arithmetic/.*' is no pair of answers"),
        (["--env", "judge_v0", "--num-generations", "5"], "--num-generations must be even, got 5"),
    ],
)
def test_groups_that_cannot_hold_both_orders_are_refused(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        grpo.main([*PAID, *flags, "--output-dir", str(tmp_path / "run")])
    assert re.search(said, " ".join(capsys.readouterr().err.split()))
