"""Every algorithm's expected gradient, over all groups of episodes of the exact game, is that of its stated objective.

Where an estimator is unbiased, the other side is the policy gradient itself; where it is biased, its formula, computed
by enumerating groups in plain Python (`enumerated.py`) or in closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor

from algos import grpo, reinforce_pp, turn_ppo
from algos.algorithm import Algorithm
from algos.batch import make_batch
from algos.collect import numbered
from algos.exact import AGENTS, Game, Table, expected_gradient, policy_gradient, prepared
from algos.functional import importance_weights
from algos.groups import Stem, by_context, grafted, paid_by_branches
from rema_agents.types import Episode
from rema_env.transcript import Transcript
from tests.algos.enumerated import (
    Clip,
    Numbers,
    Trajectory,
    as_gradient,
    expected,
    flat,
    group_pay,
    trajectories_of,
)

GAME = Game()
OLD = Table(GAME, seed=1)
NEW = Table(GAME, seed=2, scale=0.7, near=OLD)
REF = Table(GAME, seed=3)
TOLERANCE = 1e-6
Step = Sequence[Trajectory]


def far(got: Tensor, wanted: Tensor) -> float:
    """Relative L2 distance."""
    return float((got - wanted).norm() / wanted.norm())


def with_grpo(**settings: Any) -> Algorithm:
    return replace(grpo.algorithm(grpo.Config(grpo=grpo.GRPOConfig(**settings))), share_length=1)


def with_turn_ppo(**settings: Any) -> Algorithm:
    return replace(turn_ppo.algorithm(turn_ppo.Config(turn_ppo=turn_ppo.TurnPPOConfig(**settings))), share_length=1)


def with_reinforce_pp(**settings: Any) -> Algorithm:
    config = reinforce_pp.Config(reinforce_pp=reinforce_pp.ReinforcePPConfig(**settings))
    return replace(reinforce_pp.algorithm(config), share_length=1)


UNBIASED = {"scale_rewards": "none", "baseline": "leave_one_out", "share": "constant"}


def test_the_games_probabilities_sum_to_one_and_its_pays_differ_by_role() -> None:
    assert len(GAME.episodes) == 26
    assert sum(float(OLD.logp(e).detach().exp()) for e in GAME.episodes) == pytest.approx(1)
    assert any(e.rewards["meta_0"] != e.rewards["reasoner_0"] for e in GAME.episodes)


def test_the_exact_policy_gradient_is_the_one_of_finite_differences() -> None:
    def value(table: Table, agent: str) -> float:
        return sum(float(table.logp(e).detach().exp()) * e.rewards[agent] for e in GAME.episodes)

    got = policy_gradient(OLD).reshape(-1, 2)
    for context, n in GAME.contexts.items():
        agent = AGENTS[context[0] - 1]
        high, low = Table(GAME, near=OLD, scale=0), Table(GAME, near=OLD, scale=0)
        with torch.no_grad():
            high.logits_CV[n, 0] += 1e-5
            low.logits_CV[n, 0] -= 1e-5
        slope = (value(high, agent) - value(low, agent)) / 2e-5
        assert float(got[n, 0]) == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("agents", [AGENTS, ("meta_0",), ("reasoner_0",)])
@pytest.mark.parametrize(
    "algorithm",
    [
        with_grpo(**UNBIASED),
        with_grpo(**UNBIASED, ratio="sequence"),
        with_grpo(**{**UNBIASED, "credit": "running"}),
        with_grpo(**{**UNBIASED, "credit": "agent"}),
        with_turn_ppo(**UNBIASED),
        with_turn_ppo(**UNBIASED, ratio="turn_arithmetic"),
    ],
)
def test_unbiased_estimators_give_the_policy_gradient_itself(algorithm: Algorithm, agents: tuple[str, ...]) -> None:
    old = Table(Game(agents=agents), seed=1)
    assert far(expected_gradient(algorithm, old), policy_gradient(old) / len(agents)) < TOLERANCE


@pytest.mark.parametrize(("size", "rounds"), [(2, 2), (3, 1), (4, 1)])
@pytest.mark.parametrize("credit", ["group", "agent"])
def test_a_group_mean_with_the_own_sample_gives_1_minus_1_over_g_times_the_policy_gradient(
    size: int, rounds: int, credit: str
) -> None:
    old = Table(Game(rounds), seed=1)
    algorithm = with_grpo(scale_rewards="none", share="constant", credit=credit)
    got = expected_gradient(algorithm, old, group_size=size)
    assert far(got, (1 - 1 / size) * policy_gradient(old) / 2) < TOLERANCE


CLIPS = {
    "token": (Clip(0.2, 0.28), {}),
    "sequence": (Clip(0.1, 0.15), {"epsilon": 0.1, "epsilon_high": 0.15}),
    "turn_geometric": (Clip(0.2, 0.2), {}),
    "turn_arithmetic": (Clip(0.2, 0.2), {}),
}


@pytest.mark.parametrize("ratio", CLIPS)
@pytest.mark.parametrize("share", ["token", "trajectory", "turn", "turn_in_trajectory", "turn_sum"])
def test_the_clipped_surrogate_of_every_ratio_and_share_has_its_stated_gradient_off_policy(
    ratio: str, share: str
) -> None:
    clip, settings = CLIPS[ratio]
    make = with_turn_ppo if ratio.startswith("turn") else with_grpo
    got = expected_gradient(make(ratio=ratio, share=share, **settings), OLD, policy=NEW)
    wanted = expected(OLD, group_pay(scale=True), share, policy=NEW, ratio=ratio, clip=clip)
    assert far(got, wanted) < TOLERANCE
    assert far(got, expected(OLD, group_pay(scale=True), share, policy=NEW, ratio=ratio)) > 0.01  # clips did act


@pytest.mark.parametrize(("ratio", "limit"), [("token", 0.3), ("turn_geometric", 0.15), ("sequence", 0.1)])
def test_guards_and_dual_clip_have_their_stated_gradient(ratio: str, limit: float) -> None:
    make = with_turn_ppo if ratio.startswith("turn") else with_grpo
    settings = {"epsilon": 0.2, "epsilon_high": 0.9, "dual_clip": 1.25, "share": "token", "log_ratio_limit": limit}
    got = expected_gradient(make(ratio=ratio, **settings), OLD, policy=NEW)
    clip = Clip(0.2, 0.9, 1.25, limit)
    assert far(got, expected(OLD, group_pay(scale=True), "token", policy=NEW, ratio=ratio, clip=clip)) < TOLERANCE
    unguarded = Clip(0.2, 0.9)
    assert far(got, expected(OLD, group_pay(scale=True), "token", policy=NEW, ratio=ratio, clip=unguarded)) > 0.01


def kl_pull(estimator: str, beta: float) -> Any:
    now, ref = Numbers(OLD), Numbers(REF)
    if estimator == "k2":
        return lambda t: -beta * (now.logp(t) - ref.logp(t))
    return lambda t: -beta * (1 - math.exp(ref.logp(t) - now.logp(t)))


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_kl_in_the_loss_has_its_stated_gradient(estimator: str) -> None:
    got = expected_gradient(with_grpo(beta=0.3, kl_estimator=estimator), OLD, reference=REF)
    assert far(got, expected(OLD, group_pay(scale=True), "token", penalty=kl_pull(estimator, 0.3))) < TOLERANCE


def faced(old: Table) -> dict[Any, float]:
    """How often every context is faced in an episode."""
    counts: dict[Any, float] = dict.fromkeys(old.game.contexts, 0.0)
    for episode, told in zip(old.game.episodes, trajectories_of(old), strict=True):
        p = float(old.logp(episode).detach().exp())
        for s in told:
            for context, _ in s.tokens:
                counts[context] += p
    return counts


def test_k2_pulls_by_the_gradient_of_the_kl_in_the_contexts_that_were_faced_and_k3_by_that_of_the_reversed_kl() -> None:
    weight_C = torch.tensor(list(faced(OLD).values()), dtype=torch.float64)
    ref_CV = REF.logp_CV().detach()
    forward_C = (OLD.logp_CV().exp() * (OLD.logp_CV() - ref_CV)).sum(-1)
    reversed_C = (ref_CV.exp() * (ref_CV - OLD.logp_CV())).sum(-1)
    zero = {"share": "constant", "scale_rewards": "none"}
    nothing = expected_gradient(with_grpo(**zero), OLD)
    for estimator, kl_C in {"k2": forward_C, "k3": reversed_C}.items():
        got = expected_gradient(with_grpo(**zero, beta=1.0, kl_estimator=estimator), OLD, reference=REF) - nothing
        assert far(got, -OLD.gradient((weight_C * kl_C).sum()) / 2) < TOLERANCE


@pytest.mark.parametrize("make", [with_grpo, with_turn_ppo])
def test_the_kl_in_the_reward_gives_each_agents_gradient_of_pay_less_its_own_kl(make: Any) -> None:
    beta = 0.25
    got = expected_gradient(make(**UNBIASED, beta=beta, kl_in="reward"), OLD, reference=REF)
    total = torch.zeros((), dtype=torch.float64)
    for episode in GAME.episodes:
        p = OLD.logp(episode).exp().detach()
        for agent in AGENTS:
            own = OLD.logp(episode, agent)
            kl = (own - REF.logp(episode, agent)).detach()
            total = total + p * (episode.rewards[agent] - beta * kl) * own
    assert far(got, OLD.gradient(total) / 2) < TOLERANCE


def test_the_entropy_bonus_has_the_entropys_own_gradient() -> None:
    got = expected_gradient(with_grpo(entropy_coef=0.3, share="trajectory"), OLD)
    assert far(got, expected(OLD, group_pay(scale=True), "trajectory", entropy=0.3)) < TOLERANCE


def to_go(s: Trajectory, beta: float, gamma: float, final: float) -> list[float]:
    """Returns to go of every token, by going backwards."""
    now, ref = Numbers(OLD), Numbers(REF)
    out: list[float] = []
    ahead = 0.0  # of the next turn
    for k in reversed(range(len(s.turns))):
        within = final if k == len(s.turns) - 1 else gamma * ahead
        for token in reversed(s.turns[k]):
            within -= beta * (now.logp(token) - ref.logp(token))
            out.append(within)
        ahead = within
    return out[::-1]


@pytest.mark.parametrize(("beta", "gamma", "over"), [(0.0, 1.0, "role"), (0.3, 1.0, "role"), (0.3, 0.8, "all")])
def test_reinforce_pp_has_the_gradient_of_its_whitened_returns(beta: float, gamma: float, over: str) -> None:
    def pay(step: Step) -> list[list[float]]:
        returns = [to_go(s, beta, gamma, s.reward) for s in step]
        out = []
        for s, own in zip(step, returns, strict=True):
            pool = [r for o, rs in zip(step, returns, strict=True) if over == "all" or o.agent == s.agent for r in rs]
            mean = fmean(pool)
            std = math.sqrt(fmean((r - mean) ** 2 for r in pool) + 1e-8)
            out.append([(r - mean) / std for r in own])
        return out

    algorithm = with_reinforce_pp(beta=beta, gamma=gamma, whiten_over=over)
    got = expected_gradient(algorithm, OLD, reference=REF if beta else None)
    assert far(got, expected(OLD, pay, "token")) < TOLERANCE


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_reinforce_pp_with_the_group_baseline_has_its_stated_gradient(beta: float) -> None:
    def pay(step: Step) -> list[list[float]]:
        out = []
        for s in step:
            own = [o.reward for o in step if o.agent == s.agent]
            mean = fmean(own)
            std = math.sqrt(fmean((r - mean) ** 2 for r in own) + 1e-8) if max(own) > min(own) else 1.0
            out.append([r / std for r in to_go(s, beta, 1.0, s.reward - mean)])
        return out

    algorithm = with_reinforce_pp(beta=beta, reinforce_baseline="group")
    got = expected_gradient(algorithm, OLD, reference=REF if beta else None)
    assert far(got, expected(OLD, pay, "token")) < TOLERANCE


def turn_gradients(old: Table, factor: Any) -> Tensor:
    """sum over agents and turns k of factor(agent, k) times turn k's part of the policy gradient."""
    pull: dict[Any, float] = {}
    for episode, told in zip(old.game.episodes, trajectories_of(old), strict=True):
        p = float(old.logp(episode).detach().exp())
        for s in told:
            for k, turn in enumerate(s.turns):
                for token in turn:
                    pull[token] = pull.get(token, 0.0) + p * s.reward * factor(s.agent, k)
    return as_gradient(old, pull)


@pytest.mark.parametrize(("baseline", "size", "rounds"), [("mean", 2, 2), ("leave_one_out", 2, 2)])
def test_agent_turn_groups_weigh_a_turn_by_how_many_reach_it(baseline: str, size: int, rounds: int) -> None:
    old = Table(Game(rounds), seed=1)
    reach = [1.0, sum(float(old.logp(e).detach().exp()) for e in old.game.episodes if len(e.calls) > 2)]

    def factor(agent: str, k: int) -> float:
        m = [math.comb(size - 1, n) * reach[k] ** n * (1 - reach[k]) ** (size - 1 - n) for n in range(size)]
        return sum(p * (1 - 1 / (1 + n) if baseline == "mean" else n > 0) for n, p in enumerate(m))

    algorithm = with_grpo(credit="agent_turn", baseline=baseline, scale_rewards="none", share="constant")
    assert far(expected_gradient(algorithm, old, group_size=size), turn_gradients(old, factor) / 2) < TOLERANCE


def test_the_counterfactual_baseline_weighs_a_turn_by_the_chance_of_company_in_its_context() -> None:
    seen: dict[Any, float] = {}
    for episode, told in zip(GAME.episodes, trajectories_of(OLD), strict=True):
        p = float(OLD.logp(episode).detach().exp())
        for s in told:
            for turn in s.turns:
                seen[turn[0][0]] = seen.get(turn[0][0], 0.0) + p
    pull: dict[Any, float] = {}
    for episode, told in zip(GAME.episodes, trajectories_of(OLD), strict=True):
        p = float(OLD.logp(episode).detach().exp())
        for s in told:
            for turn in s.turns:
                for token in turn:
                    pull[token] = pull.get(token, 0.0) + p * s.reward * seen[turn[0][0]]
    algorithm = with_grpo(**{**UNBIASED, "credit": "counterfactual"})
    assert far(expected_gradient(algorithm, OLD), as_gradient(OLD, pull) / 2) < TOLERANCE


def test_a_critics_advantage_is_unbiased_at_lambda_1_whatever_it_says() -> None:
    settings = {"credit": "critic", "lam": 1.0, "scale_rewards": "none", "share": "constant"}
    assert far(expected_gradient(with_turn_ppo(**settings), OLD), policy_gradient(OLD) / 2) < TOLERANCE


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5)])
def test_a_critics_advantage_has_the_gradient_of_gae_over_turns(gamma: float, lam: float) -> None:
    value = {context: float(OLD.value_C[n]) for context, n in GAME.contexts.items()}

    def pay(step: Step) -> list[list[float]]:
        out = []
        for s in step:
            start = [value[turn[0][0]] for turn in s.turns]
            T = len(start)
            delta = [(s.reward if k == T - 1 else gamma * start[k + 1]) - start[k] for k in range(T)]
            adv = [sum((gamma * lam) ** (j - k) * delta[j] for j in range(k, T)) for k in range(T)]
            out.append([a for a, turn in zip(adv, s.turns, strict=True) for _ in turn])
        return out

    algorithm = with_turn_ppo(credit="critic", gamma=gamma, lam=lam, scale_rewards="none")
    assert far(expected_gradient(algorithm, OLD), expected(OLD, pay, "turn_in_trajectory")) < TOLERANCE


def test_importance_weights_mend_the_choice_of_a_token_and_not_its_context() -> None:
    """Sampled by OLD, learnt as NEW: token t is drawn from NEW, all others from OLD, without a cap."""
    now, sampler = Numbers(NEW), Numbers(OLD)
    pull: dict[Any, float] = {}
    wanted: dict[Any, float] = {}
    for episode, told in zip(GAME.episodes, trajectories_of(OLD), strict=True):
        p = float(OLD.logp(episode).detach().exp())
        batch = GAME.batch([[episode]]).with_tensors()
        weight_BT = importance_weights(NEW.say(batch).logp_BT, OLD.say(batch).logp_BT, batch.turn_BT, cap=1e9)
        for s, b in zip(told, range(len(batch)), strict=True):
            c_N = weight_BT[b][batch.trained_BT[b]].tolist()
            for token, c in zip(s.tokens, c_N, strict=True):
                pull[token] = pull.get(token, 0.0) + p * c * s.reward
                odds = math.exp(now.logp(token) - sampler.logp(token))
                wanted[token] = wanted.get(token, 0.0) + p * odds * s.reward
    assert far(as_gradient(NEW, pull), as_gradient(NEW, wanted)) < TOLERANCE


def test_agents_that_learn_apart_have_the_gradient_of_their_own_pay_alone() -> None:
    both = expected_gradient(with_grpo(**UNBIASED), OLD)
    for agent in AGENTS:
        alone = Table(Game(agents=(agent,)), seed=1)
        got = dict(
            zip(alone.game.contexts, expected_gradient(with_grpo(**UNBIASED), alone).reshape(-1, 2), strict=True)
        )
        for context, n in GAME.contexts.items():
            own = AGENTS[context[0] - 1] == agent
            wanted = 2 * both.reshape(-1, 2)[n] if own else torch.zeros(2, dtype=torch.float64)
            assert torch.allclose(got[context], wanted, atol=1e-12)


def test_a_constant_taken_off_every_reward_changes_no_group_algorithm() -> None:
    def shifted(step: Step) -> list[float]:
        return [a[0] for a in group_pay()([replace(s, reward=s.reward - 7) for s in step])]

    got = expected_gradient(with_grpo(scale_rewards="none"), OLD)
    assert far(got, expected(OLD, flat(shifted), "token")) < TOLERANCE


def branched(old: Table, k1: int, k2: int) -> list[tuple[float, list[Episode]]]:
    """Every way in which k1 plans with k2 replies each can come about in one round, with its chance under `old`."""
    plans: dict[str, list[Episode]] = {}
    for e in old.game.episodes:
        plans.setdefault(str(e.transcript.turns[0].message), []).append(e)
    told = []
    for chosen in itertools.product(plans.values(), repeat=k1):
        for replies in itertools.product(*(itertools.product(alike, repeat=k2) for alike in chosen)):
            chance, roots, branches, where = 1.0, [], [], []
            for n, (first, *others) in enumerate(replies):
                chance *= math.exp(float(old.logp(first).detach()))
                roots.append(replace(first, dialogue=n))
                for other in others:
                    chance *= math.exp(float(old.logp(other, "reasoner_0").detach()))
                    branches.append(replace(other, calls=other.calls[1:]))
                    where.append(Stem(n, 1, Transcript(first.problem, first.transcript.turns[:1])))
            told.append((chance, numbered([grafted(roots, branches, where)])))
    return told


@pytest.mark.parametrize("credit", ["group", "counterfactual"])
def test_plans_with_several_solutions_each_give_the_policy_gradient_without_bias(credit: str) -> None:
    """k1 plans compared with one another by the mean of their solutions, k2 solutions of a plan with one another.

    A loss sums over k1 plans and k1 k2 solutions, so the gradient by the meta-thinker's choices is k1 times the policy
    gradient, and that by the reasoner's k1 k2 times, over all trajectories.
    """
    k1, k2 = 2, 2
    old = Table(Game(rounds=1), seed=1)
    algorithm = with_grpo(**{**UNBIASED, "credit": credit})
    total = torch.zeros((), dtype=torch.float64)
    chances = 0.0
    for chance, episodes in branched(old, k1, k2):
        batch = make_batch(episodes, AGENTS)
        batch = replace(batch, reward_S=batch.reward_S.double(), sampled_logp_BT=batch.sampled_logp_BT.double())
        batch = by_context(paid_by_branches(batch, episodes))
        batch = prepared(algorithm, batch, [len(batch.reward_S)], [chance], old, None)
        total = total - algorithm.loss(old.say(batch), batch)[0]
        chances += chance
    assert chances == pytest.approx(1)
    got, exact = old.gradient(total).reshape(-1, 2), policy_gradient(old).reshape(-1, 2)
    for context, n in old.game.contexts.items():
        times = k1 if context[0] == 1 else k1 * k2
        assert torch.allclose(got[n], times / (k1 + k1 * k2) * exact[n], atol=1e-9)
