"""The learner against plain transformers and plain policy gradient, in float64."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from algos.algorithm import Out
from algos.batch import Batch, make_batch
from algos.config import LearnerConfig
from algos.functional import group_advantages, token_shares
from algos.grpo import GRPOConfig
from algos.grpo import loss as grpo_loss
from algos.head import token_logps
from algos.learner import Learner, learning_rate_factor
from algos.scoring import Precision, Scorer, load_model, score
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Problem, Transcript
from tests.algos.plain import weights_of

CPU = Precision(torch.device("cpu"), torch.float32)
AGENTS = ("meta_0", "reasoner_0")
TEMPERATURE = 0.7
PLAIN = LearnerConfig(learning_rate=1e-3, gradient_checkpointing=False, micro_batch_tokens=256)


def make_learner(folder: Path, config: LearnerConfig = PLAIN, **more: Any) -> Learner:
    return Learner(str(folder), config, CPU, temperature=TEMPERATURE, **more)


def prepared(learner: Learner, episodes: Sequence[Episode], *, split_rows: bool = False) -> Batch:
    """A minibatch with everything GRPO's loss reads."""
    batch = make_batch(episodes, AGENTS, split_rows=split_rows)
    adv_S = group_advantages(batch.reward_S, batch.group_S)
    return batch.with_tensors(
        old_logp_BT=learner.logp(batch),
        adv_BT=adv_S[batch.trajectory_B][:, None].expand_as(batch.turn_BT),
        share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float(),
    )


LOSS = partial(grpo_loss, config=GRPOConfig())


def gradient(learner: Learner, minibatch: Batch) -> Tensor:
    """The accumulated gradient as one vector; the learner's own is cleared."""
    learner.backward(minibatch, LOSS)
    grads = [p.grad.detach().double().flatten() for p in learner.model.parameters() if p.grad is not None]
    learner.engine.zero_grad()
    return torch.cat(grads)


def relative_error(got: Tensor, expected: Tensor) -> float:
    return float((got - expected).norm() / expected.norm())


def plain_policy_gradient(folder: Path, episodes: Sequence[Episode]) -> Tensor:
    """Mean over sampled tokens of A grad logp, call by call, in float64, with nothing of this project but the ids."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    tokens = sum(len(call.completion.token_ids) for e in episodes for call in e.calls)
    for episode in episodes:
        for agent in AGENTS:
            rewards = torch.tensor([e.rewards[agent] for e in episodes if e.group == episode.group]).double()
            spread = rewards.max() > rewards.min()
            advantage = (episode.rewards[agent] - rewards.mean()) / (rewards.std() + 1e-6) if spread else 0.0
            for call in (c for c in episode.calls if c.agent == agent):
                ids = torch.tensor([[*call.prompt_ids, *call.completion.token_ids]])
                logp = torch.log_softmax(model(input_ids=ids).logits[0] / TEMPERATURE, -1)
                for t in range(len(call.prompt_ids), ids.shape[1]):
                    total = total - advantage * logp[t - 1, ids[0, t]] / tokens
    total.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def test_the_first_gradient_is_plain_policy_gradient(embedded: Path, episodes: list[Episode]) -> None:
    learner = make_learner(embedded)
    assert len({e.rewards["meta_0"] for e in episodes}) == 2
    error = relative_error(gradient(learner, prepared(learner, episodes)), plain_policy_gradient(embedded, episodes))
    assert error < 1e-5


@pytest.mark.parametrize("tokens", [1, 128, 10**6])
def test_the_gradient_is_the_same_however_the_minibatch_is_split(
    embedded: Path, episodes: list[Episode], tokens: int
) -> None:
    whole = make_learner(embedded)
    expected = gradient(whole, prepared(whole, episodes))
    split = make_learner(embedded, LearnerConfig(gradient_checkpointing=False, micro_batch_tokens=tokens))
    assert relative_error(gradient(split, prepared(split, episodes)), expected) < 1e-5


def test_the_gradient_is_the_same_for_one_row_and_for_several(embedded: Path, episodes: list[Episode]) -> None:
    learner = make_learner(embedded)
    one, several = prepared(learner, episodes), prepared(learner, episodes, split_rows=True)
    assert len(several) > len(one)
    assert relative_error(gradient(learner, several), gradient(learner, one)) < 1e-5


def test_gradient_checkpointing_changes_nothing(embedded: Path, episodes: list[Episode]) -> None:
    plain = make_learner(embedded)
    frugal = make_learner(embedded, LearnerConfig(gradient_checkpointing=True))
    expected = gradient(plain, prepared(plain, episodes))
    assert relative_error(gradient(frugal, prepared(frugal, episodes)), expected) < 1e-5


def test_sampler_and_learner_agree_on_every_sampled_token(embedded: Path, episodes: list[Episode]) -> None:
    batch = make_batch(episodes, AGENTS)
    gap_N = (make_learner(embedded).logp(batch) - batch.sampled_logp_BT)[batch.trained_BT].abs()
    assert len(gap_N) > 100
    assert float(gap_N.max()) < 1e-4


def test_log_probabilities_are_taken_under_the_temperature_used() -> None:
    logits = torch.tensor([2.0, 0.0, -1.0])
    rows = Batch(
        ids_BT=torch.tensor([[0, 1, 2]]),
        turn_BT=torch.tensor([[-1, 0, 0]]),
        sampled_logp_BT=torch.zeros(1, 3),
        length_B=torch.tensor([3]),
        trajectory_B=torch.tensor([0]),
        reward_S=torch.zeros(1),
        group_S=torch.tensor([0]),
        agent_S=torch.tensor([0]),
        episode_S=torch.tensor([0]),
        agents=("meta_0",),
    )

    def forward(
        ids_BT: Tensor, before_BT: Tensor, token_N: Tensor, temperature: float, entropy: bool, state_BT: None
    ) -> Any:
        assert before_BT.tolist() == [[True, True, False]]
        head_VH = logits[:, None]
        return *token_logps(torch.ones(2, 1), head_VH, None, token_N, temperature=temperature, entropy=entropy), None

    out = score(forward, rows, torch.device("cpu"), temperature=0.6, entropy=True)
    hot = torch.log_softmax(logits / 0.6, -1)
    assert out.logp_BT.tolist() == [[0.0, pytest.approx(float(hot[1])), pytest.approx(float(hot[2]))]]
    assert out.entropy_BT is not None
    assert out.entropy_BT[0, 1:].tolist() == pytest.approx([float(-(hot.exp() * hot).sum())] * 2)


def test_scores_shift_by_one_and_hold_for_absolute_positions(tmp_path: Path, episodes: list[Episode]) -> None:
    torch.manual_seed(0)
    shape = GPT2Config(
        vocab_size=256,
        bos_token_id=0,
        eos_token_id=0,
        n_positions=256,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.1,
        attn_pdrop=0.1,
    )
    GPT2LMHeadModel(shape).save_pretrained(tmp_path)
    model = load_model(str(tmp_path), CPU).train()
    batch = make_batch(episodes[:2], AGENTS)
    with torch.no_grad():
        logp_BT = score(Scorer(model), batch, torch.device("cpu"), temperature=1.0).logp_BT
        for b in range(len(batch)):
            ids = batch.ids_BT[b, : int(batch.length_B[b])]
            alone = torch.log_softmax(model.eval()(input_ids=ids[None]).logits[0], -1)
            for t in torch.nonzero(batch.turn_BT[b] >= 0).flatten().tolist():
                assert float(logp_BT[b, t]) == pytest.approx(float(alone[t - 1, ids[t]]), abs=1e-5)


def test_padding_has_log_probability_0_and_no_part_in_the_gradient(embedded: Path, episodes: list[Episode]) -> None:
    learner = make_learner(embedded, replace(PLAIN, micro_batch_tokens=10**6))
    batch = prepared(learner, episodes)
    padding_BT = torch.arange(batch.ids_BT.shape[1]) >= batch.length_B[:, None]
    assert padding_BT.any()
    assert not learner.logp(batch)[~batch.trained_BT].any()
    other = replace(batch, ids_BT=torch.where(padding_BT, 7, batch.ids_BT))
    assert torch.equal(learner.logp(other), batch.old_logp_BT)
    assert torch.equal(gradient(learner, other), gradient(learner, batch))


@pytest.mark.parametrize("bad", [-1, 274])
def test_an_id_that_the_model_does_not_have_is_an_error_that_names_it(bad: int, embedded: Path) -> None:
    batch = make_batch([two_messages([3, bad], [5])], AGENTS)
    with pytest.raises(ValueError, match=rf"token 2 of meta_0 in episode 0 is id {bad}, but the model has 0 to 273"):
        make_learner(embedded).logp(batch)


def two_messages(first: list[int], second: list[int]) -> Episode:
    """One message of each agent, after a prompt of one token."""
    problem = Problem("p", "q", "a")
    calls = [
        Call(agent, turn, (1,), Completion(tuple(ids), (0.0,) * len(ids), Finish.STOP))
        for turn, (agent, ids) in enumerate(zip(AGENTS, (first, second), strict=True))
    ]
    return Episode(problem, Transcript(problem, (), Ending.FINISHED), tuple(calls), dict.fromkeys(AGENTS, 1.0))


@pytest.mark.parametrize("tokens", [1, 10, 1000])
def test_the_loss_told_is_the_mean_over_all_tokens_in_every_split(tokens: int, embedded: Path) -> None:
    learner = make_learner(embedded, replace(PLAIN, micro_batch_tokens=tokens))
    batch = make_batch([two_messages([2, 3, 4], list(range(10, 19)))], AGENTS)
    adv_BT = torch.where(batch.trained_BT, torch.tensor([-0.9, -0.1])[batch.agent_S[batch.trajectory_B], None], 0.0)
    share_BT = token_shares(batch.turn_BT, batch.trajectory_B, "token").float()
    ready = batch.with_tensors(old_logp_BT=learner.logp(batch), adv_BT=adv_BT, share_BT=share_BT)
    assert learner.update(ready, LOSS)["loss"] == pytest.approx(0.3)


def test_one_update_is_one_optimizer_step_of_any_number_of_micro_batches(
    embedded: Path, episodes: list[Episode]
) -> None:
    learner = make_learner(embedded)
    minibatch = prepared(learner, episodes)
    before = weights_of(learner)
    expected_norm = float(gradient(learner, minibatch).norm())
    metrics = learner.update(minibatch, LOSS)
    assert learner.engine.global_steps == 1
    assert metrics["grad_norm"] == pytest.approx(expected_norm, rel=1e-4)
    assert metrics["learning_rate"] == 1e-3
    change = weights_of(learner) - before
    assert 0 < float(change.abs().max()) <= 1.01e-3  # Adam's first step is the learning rate at most


def test_gradients_are_clipped_to_the_norm_asked_for(embedded: Path, episodes: list[Episode]) -> None:
    learner = make_learner(embedded, LearnerConfig(gradient_checkpointing=False, max_grad_norm=1e-3))
    seen: list[float] = []
    learner.engine.optimizer.register_step_pre_hook(
        lambda optimizer, *_: seen.append(
            float(torch.cat([p.grad.flatten() for g in optimizer.param_groups for p in g["params"]]).norm())
        )
    )
    metrics = learner.update(prepared(learner, episodes), LOSS)
    assert metrics["grad_norm"] > 1e-3
    assert seen == [pytest.approx(1e-3, rel=1e-3)]


def test_scoring_leaves_no_gradient_and_changes_no_weight(embedded: Path, episodes: list[Episode]) -> None:
    learner = make_learner(embedded)
    before = {name: weight.clone() for name, weight in learner.named_weights()}
    learner.logp(make_batch(episodes, AGENTS))
    assert all(torch.equal(weight, before[name]) for name, weight in learner.named_weights())
    assert all(p.grad is None for p in learner.model.parameters())


def test_a_restored_learner_goes_on_exactly_as_if_it_had_never_stopped(
    embedded: Path, episodes: list[Episode], tmp_path: Path
) -> None:
    straight = make_learner(embedded, total_updates=4)
    minibatch = prepared(straight, episodes)
    straight.update(minibatch, LOSS)
    straight.save_state(tmp_path)
    straight.update(minibatch, LOSS)
    resumed = make_learner(embedded, total_updates=4)
    resumed.load_state(tmp_path)
    resumed.update(minibatch, LOSS)
    again = dict(resumed.named_weights())
    assert all(torch.equal(weight, again[name]) for name, weight in straight.named_weights())


@pytest.mark.parametrize(
    ("stage", "told", "moves"),
    [
        (1, {}, True),
        (2, {}, True),
        (2, {"offload_optimizer": {"device": "cpu"}}, False),  # its states have their place in host memory already
    ],
)
def test_states_that_wait_in_host_memory_come_back_as_they_were(
    stage: int,
    told: dict[str, Any],
    moves: bool,
    embedded: Path,
    episodes: list[Episode],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "deepspeed.json"
    file.write_text(json.dumps({"zero_optimization": {"stage": stage, **told}}))
    changed = []
    for may_rest in (True, False):
        monkeypatch.setattr(Learner, "_may_rest", may_rest)
        learner = make_learner(embedded, replace(PLAIN, deepspeed=str(file)))
        assert learner.states.resting == (may_rest and moves)
        minibatch = prepared(learner, episodes[:4])
        for _ in range(2):
            learner.update(minibatch, LOSS)
            learner.rest()
        changed.append(dict(learner.named_weights()))
    assert all(torch.equal(weight, changed[1][name]) for name, weight in changed[0].items())


def test_entropy_is_computed_only_when_an_algorithm_needs_it(embedded: Path, episodes: list[Episode]) -> None:
    seen: list[Out] = []

    def loss(out: Out, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        seen.append(out)
        return LOSS(out, batch)  # type: ignore[return-value]

    for needs in ((), ("entropy",)):
        learner = make_learner(embedded, needs=needs)
        learner.update(prepared(learner, episodes), loss)
        assert (seen[-1].entropy_BT is not None) == bool(needs)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25]),
        ("cosine", [1 / 3, 2 / 3, 1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_learning_rate_schedules_are_those_worked_by_hand(kind: Any, expected: list[float]) -> None:
    factor = learning_rate_factor(LearnerConfig(lr_scheduler_type=kind, warmup_steps=2), total_updates=6)
    assert [factor(n) for n in range(6)] == pytest.approx(expected, abs=1e-6)
