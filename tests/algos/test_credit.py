"""What each plug-in of credit pays, against numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from algos.batch import Batch
from algos.credit import CreditConfig, agent_turn, credit, plug_in
from tests.algos.batches import batch_of, rewarded

T = pytest.approx


def paid(data: Batch, name: str, carry: Any = None, **settings: Any) -> list[list[float]]:
    config = CreditConfig(credit=name, **{"scale_rewards": "none", **settings})
    adv_BT, _ = credit(data, data.reward_S, carry, config)
    return adv_BT.tolist()


def test_group_pays_every_token_the_same_and_leave_one_out_pays_g_over_g_minus_1_as_much() -> None:
    data = batch_of([[0, 1], [0, -1]], reward=[1.0, 0.0], group=[3, 3])
    assert paid(data, "group") == [[0.5, 0.5], [-0.5, -0.5]]
    assert paid(data, "group", baseline="leave_one_out") == [[1.0, 1.0], [-1.0, -1.0]]


def test_a_name_of_what_is_no_function_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--credit os\.path:sep: there is no such credit"):
        plug_in("os.path:sep")


def test_batch_scaling_divides_by_the_agents_own_deviation() -> None:
    data = batch_of([[0]] * 4, reward=[1, 0, 10, 0], group=[0, 0, 1, 1], agent=[0, 0, 1, 1])
    got = [row[0] for row in paid(data, "group", scale_rewards="batch")]
    assert got == T([0.5 / 0.70711, -0.5 / 0.70711] * 2, abs=1e-4)


def test_agent_turn_compares_a_turn_with_the_same_turn_of_others() -> None:
    data = batch_of([[0, 1], [0, 1], [0, -1]], reward=[1.0, 0.0, 0.5], group=[0, 0, 0])
    assert paid(data, "agent_turn") == [[0.5, 0.5], [-0.5, -0.5], [0.0, 0.0]]
    data = rewarded(data, [1.0, 0.0, 2.0])
    assert paid(data, "agent_turn") == [[0.0, 0.5], [-1.0, -0.5], [1.0, 0.0]]


def test_agent_turn_gives_nothing_to_a_turn_that_nobody_else_has() -> None:
    data = batch_of([[0, 1], [0, -1]], reward=[1.0, 0.0], group=[0, 0])
    assert paid(data, "agent_turn") == [[0.5, 0.0], [-0.5, 0.0]]


def test_the_default_baseline_is_of_whole_trajectories_and_one_by_turn_says_that_it_is_biased() -> None:
    stops_at_once, goes_on = [0, -1], [0, 1]
    data = batch_of([stops_at_once, goes_on], reward=[0.0, 1.0], group=[0, 0])
    assert CreditConfig().credit == "group"
    assert paid(data, "group") == [[-0.5, -0.5], [0.5, 0.5]]
    assert paid(data, "agent_turn") == [[-0.5, 0.0], [0.5, 0.0]]  # whoever goes on is never compared again
    assert "Bias" in (agent_turn.__doc__ or "")


def test_agent_normalises_over_all_problems_and_never_over_agents() -> None:
    data = batch_of([[0]] * 4, reward=[3, 1, 20, 10], group=[0, 1, 2, 3], agent=[0, 0, 1, 1])
    assert [row[0] for row in paid(data, "agent")] == [1, -1, 5, -5]


def test_one_scale_for_all_agents_inflates_the_second_moment_of_some_and_each_agents_own_does_not() -> None:
    """(sigma_a^2 + (mu_a - mu)^2) / sigma^2: mu_a 7 and 1, sigma_a 1 and 3, mu 4, sigma^2 = 112 / (8 - 1) = 16."""
    data = batch_of([[0]] * 8, reward=[6, 8, 6, 8, -2, 4, -2, 4], group=[0] * 8, agent=[0] * 4 + [1] * 4)

    def moments(name: str) -> list[float]:
        square_S = torch.tensor(paid(data, name, scale_rewards="group"))[:, 0] ** 2
        return [float(square_S[data.agent_S == a].mean()) for a in range(2)]

    assert moments("group") == T([(1 + 9) / 16, (9 + 9) / 16], abs=1e-5)  # a group that holds both agents
    assert moments("agent") == T([3 / 4, 3 / 4], abs=1e-5)  # 1, but for the degree of freedom taken off


def test_running_baselines_come_from_earlier_steps_alone() -> None:
    data = batch_of([[0]] * 4, reward=[1, 0, 4, 2], agent=[0, 0, 1, 1])
    config = CreditConfig(credit="running")
    adv_BT, carry = credit(data, data.reward_S, None, config)
    assert adv_BT[:, 0].tolist() == [1, 0, 4, 2]
    assert carry == {"meta_0": 0.5, "reasoner_0": 3.0}
    adv_BT, after = credit(data, data.reward_S + 1, carry, config)
    assert adv_BT[:, 0].tolist() == [1.5, 0.5, 2, 0]
    assert after["meta_0"] == T(0.95 * 0.5 + 0.05 * 1.5)
    assert carry == {"meta_0": 0.5, "reasoner_0": 3.0}


def test_counterfactual_compares_turns_that_answer_the_very_same_tokens() -> None:
    data = batch_of([[-1, 0, -1, 1], [-1, 0, -1, 1], [-1, 0, -1, 1]], reward=[1.0, 0.0, 0.5])
    ids_BT = torch.tensor([[7, 1, 8, 1], [7, 1, 8, 2], [7, 2, 8, 1]])
    got = paid(replace(data, ids_BT=ids_BT), "counterfactual")
    assert [row[1] for row in got] == [0.5, -0.5, 0.0]
    assert [row[3] for row in got] == [0.5, -0.5, 0.0]


def test_a_credit_of_another_package_is_found_by_its_name() -> None:
    assert plug_in("algos.credit.group:group") is plug_in("group")
    with pytest.raises(ValueError, match="--credit sometimes: there is no such credit; there are group, agent_turn"):
        CreditConfig(credit="sometimes").check_group(4)


def test_a_group_of_one_is_refused_where_a_group_is_needed() -> None:
    with pytest.raises(ValueError, match="--num-generations must be at least 2"):
        CreditConfig().check_group(1)
    CreditConfig(credit="running").check_group(1)
