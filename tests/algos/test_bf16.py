"""A model in 16 bits: what adds up over micro-batches does so in float32; every stage of ZeRO has the same model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from algos.algorithm import Out
from algos.batch import Batch, make_batch
from algos.learner import Learner
from algos.scoring import Precision, Reference
from rema_agents.types import Episode
from tests.algos.plain import plain_sgd

BF16 = Precision(torch.device("cpu"), torch.bfloat16)


def loss(out: Out, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    return out.logp_BT.sum() / 10, {}


@pytest.fixture(scope="module")
def reference(embedded: Path) -> Reference:
    """The model as transformers loads it, without DeepSpeed."""
    return Reference(str(embedded), BF16, temperature=1.0, micro_batch_tokens=10**6)


@pytest.mark.parametrize(
    "zero",
    [{"stage": 0}, {"stage": 1}, {"stage": 2}, {"stage": 3}, {"stage": 2, "offload_optimizer": {"device": "cpu"}}],
    ids=str,
)
def test_scores_are_the_models_own_and_the_same_gradient_eight_times_over_is_eight_times_the_gradient(
    zero: dict[str, object], reference: Reference, embedded: Path, episodes: list[Episode], tmp_path: Path
) -> None:
    (tmp_path / "deepspeed.json").write_text(json.dumps({"zero_optimization": zero}))
    config = plain_sgd(0.0, stage=0, tokens=10**6, deepspeed=str(tmp_path / "deepspeed.json"))
    learner = Learner(str(embedded), config, BF16)
    minibatch = make_batch(episodes[:1], ("meta_0", "reasoner_0"))
    assert torch.equal(learner.logp(minibatch), reference.logp(minibatch))
    gradients: list[Tensor] = []

    def keep(optimizer: torch.optim.Optimizer, *_: object) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients.append(torch.cat([p.grad.flatten() for p in parameters]))

    learner.engine.optimizer.optimizer.register_step_pre_hook(keep)
    learner.update(minibatch, loss)
    for _ in range(7):
        learner.backward(minibatch, loss)
    learner.update(minibatch, loss)
    once, eightfold = gradients
    assert once.norm() > 0
    assert torch.equal(eightfold, 8 * once)  # summed in 16 bits it is half a percent off
