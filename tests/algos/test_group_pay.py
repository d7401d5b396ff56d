"""Group terms on groups counted by hand."""

from __future__ import annotations

import pytest

from algos.group_pay import check_group_rewards, pay_groups
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
    ],
)
def test_what_cannot_be_paid_is_said(weights: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_group_rewards(weights)
