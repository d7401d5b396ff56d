"""The critic of a learner: read in front of each turn, learnt with the policy, never part of what is published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from algos.algorithm import Out
from algos.batch import Batch, deal, make_batch
from algos.config import LearnerConfig
from algos.learner import Learner
from algos.scoring import turn_starts
from rema_agents.types import Episode
from tests.algos.conftest import CPU
from tests.algos.plain import plain_sgd, weights_of


@pytest.fixture
def learner(embedded: Path) -> Learner:
    config = LearnerConfig(learning_rate=1e-2, micro_batch_tokens=512, gradient_checkpointing=False)
    return Learner(str(embedded), config, CPU, needs=("value", "old_value"))


def real(batch: Batch) -> torch.Tensor:
    """bool, (B, K): whether a row has a turn k."""
    K = int(batch.turn_BT.max()) + 1
    return (batch.turn_BT[:, :, None] == torch.arange(K)).any(1)


def test_turns_start_at_their_first_sampled_token() -> None:
    assert turn_starts(torch.tensor([[-1, 0, 0, -1, 1, 1], [0, -1, 1, 2, 2, -1]])).tolist() == [
        [False, True, False, False, True, False],
        [True, False, True, True, False, False],
    ]


def test_a_critic_starts_at_0_and_learns_what_each_turn_returns(learner: Learner, episodes: list[Episode]) -> None:
    batch = make_batch(episodes, ("meta_0", "reasoner_0"))
    assert float(learner.values(batch).abs().max()) == 0.0

    def loss(out: Out, micro: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        assert out.value_BK is not None
        return ((out.value_BK - 0.5) * real(micro)).square().sum() / 100, {}

    for _ in range(30):
        learner.update(batch, loss)
    got = learner.values(batch)
    assert got.shape == real(batch).shape
    assert float(got[~real(batch)].abs().max()) == 0.0
    assert float((got - 0.5)[real(batch)].abs().mean()) < 0.1


def test_a_critic_sees_nothing_of_the_turn_that_it_judges(learner: Learner, episodes: list[Episode]) -> None:
    assert learner.scorer.critic is not None
    torch.nn.init.normal_(learner.scorer.critic.weight)
    batch = make_batch(episodes, ("reasoner_0",))
    first = learner.values(batch)
    ids_BT = torch.where(batch.turn_BT == int(batch.turn_BT[0].max()), 5, batch.ids_BT)
    changed = learner.values(Batch(**{**vars(batch), "ids_BT": ids_BT}))
    last = int(batch.turn_BT[0].max())
    assert torch.equal(changed[0, : last + 1], first[0, : last + 1])


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_policy_and_critic_learn_together_as_in_plain_pytorch_in_one_micro_batch_and_in_two(
    stage: int, embedded: Path, episodes: list[Episode]
) -> None:
    batch = make_batch(episodes[:1], ("meta_0", "reasoner_0"))
    assert len(deal(batch, 1, 1)[0]) == 2

    def loss(out: Out, micro: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        assert out.value_BK is not None
        return (0.1 * out.logp_BT.sum() + ((out.value_BK - 0.5) * real(micro)).square().sum()) / 10, {}

    expected = plainly_learnt(embedded, batch, updates=2, rate=0.1)
    for tokens in (1, 10**6):
        config = plain_sgd(0.1, stage=stage, tokens=tokens)
        learner = Learner(str(embedded), config, CPU, needs=("value", "old_value"))
        start = weights_of(learner)
        for _ in range(2):  # the critic starts at 0, so its loss reaches the policy in the second
            learner.update(batch, loss)
        change = weights_of(learner) - start
        assert float((change - expected).norm() / expected.norm()) < 1e-4


def plainly_learnt(folder: Path, batch: Batch, *, updates: int, rate: float) -> torch.Tensor:
    """How the same loss changes the policy, by nothing but transformers and torch.optim, one call of autograd each."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    critic = torch.nn.Linear(model.config.hidden_size, 1)
    torch.nn.init.zeros_(critic.weight)
    torch.nn.init.zeros_(critic.bias)
    policy = list(model.parameters())
    optimizer = torch.optim.SGD([*policy, *critic.parameters()], lr=rate)
    start = torch.cat([p.detach().flatten().clone() for p in policy])
    before_BT = torch.roll(turn_starts(batch.turn_BT), -1, dims=1)
    for _ in range(updates):
        said = model(input_ids=batch.ids_BT, output_hidden_states=True)
        logp = torch.log_softmax(said.logits[:, :-1], -1).gather(2, batch.ids_BT[:, 1:, None])[:, :, 0]
        value = critic(said.hidden_states[-1][before_BT])
        optimizer.zero_grad()
        ((0.1 * logp[batch.trained_BT[:, 1:]].sum() + (value - 0.5).square().sum()) / 10).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in policy]) - start


def test_policies_on_one_base_have_a_critic_each(embedded: Path, episodes: list[Episode]) -> None:
    config = LearnerConfig(learning_rate=1e-2, gradient_checkpointing=False, zero_stage=2)
    shape: dict[str, Any] = {"needs": ("value", "old_value"), "lora": (4, 8)}
    first = Learner(str(embedded), config, CPU, name="meta", **shape)
    second = Learner(str(embedded), config, CPU, name="reasoner", base=first, **shape)
    batch = make_batch(episodes[:2], ("meta_0", "reasoner_0"))

    def loss(out: Out, micro: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        assert out.value_BK is not None
        return ((out.value_BK - 1) * real(micro)).square().sum(), {}

    for own, other in ((first, second), (second, first)):
        before, others = own.values(batch), other.values(batch)
        own.update(batch, loss)
        assert not torch.equal(own.values(batch), before)
        assert torch.equal(other.values(batch), others)


def test_what_is_saved_and_published_has_no_critic(learner: Learner, tmp_path: Path, embedded: Path) -> None:
    learner.save(tmp_path / "policy")
    saved, start = (load_file(folder / "model.safetensors") for folder in (tmp_path / "policy", embedded))
    assert saved.keys() == start.keys()
    assert not [name for name, _ in learner.named_weights() if "critic" in name]
