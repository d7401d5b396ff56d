"""Run by a launcher: the same stored episodes through learners of many DeepSpeed configurations in one process.

    python -m tests.algos.zero_worker EPISODES OUT MODEL CONFIGURATIONS     (the last is JSON: name -> settings)

For each it saves, on the first rank, how the weights changed after each update of a learner that always sees the same
minibatch.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from algos import ranks
from algos.algorithm import Metrics, Out
from algos.batch import Batch, make_batch
from algos.config import LearnerConfig
from algos.functional import group_advantages, token_shares
from algos.grpo import GRPOConfig
from algos.grpo import loss as grpo_loss
from algos.learner import Learner, NotFinite
from algos.scoring import Precision
from rema_agents.episodes import read_episodes

AGENTS = ("meta_0", "reasoner_0")
LOSS = partial(grpo_loss, config=GRPOConfig())
TEMPERATURE = 0.7


def stored_batch(path: Path) -> Batch:
    """A minibatch with everything but old log-probabilities."""
    batch = make_batch(list(read_episodes(path)), AGENTS)
    adv_S = group_advantages(batch.reward_S, batch.group_S)
    return batch.with_tensors(
        adv_BT=adv_S[batch.trajectory_B][:, None].expand_as(batch.turn_BT),
        share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float(),
    )


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([weight.double().flatten().clone() for _, weight in learner.named_weights()])


def infinite(out: Out, batch: Batch) -> tuple[torch.Tensor, Metrics]:
    """A loss that is infinite on the rank with trajectory 3, and whose gradient is finite on all."""
    value, scalars = LOSS(out, batch)
    return (value + torch.inf if 3 in batch.trajectory_B else value), scalars


def leaves_out(learner: Learner, batch: Batch) -> None:
    """Every rank leaves the same update out, and none of them is left waiting."""
    with pytest.raises(NotFinite) as told:
        learner.update(batch, infinite)
    assert 3 in told.value.trajectories
    assert len(set(ranks.gather(told.value.trajectories))) == 1


def run(episodes: Path, model: str, settings: dict[str, object]) -> dict[str, object]:
    settings = dict(settings)
    updates, spoilt = int(str(settings.pop("updates", 5))), settings.pop("spoilt", False)
    dtype = torch.bfloat16 if settings.pop("bf16", False) else torch.float32
    config = LearnerConfig(gradient_checkpointing=False, **settings)  # type: ignore[arg-type]
    learner = Learner(model, config, Precision(torch.device("cpu"), dtype), temperature=TEMPERATURE)
    assert learner.scorer.chunked
    batch = stored_batch(episodes)
    batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
    start = weights(learner)
    if spoilt:
        leaves_out(learner, batch)
        assert torch.equal(weights(learner), start)
    metrics = [learner.update(batch, LOSS) for _ in range(updates)]
    return {"logp": batch.old_logp_BT, "change": weights(learner) - start, "metrics": metrics}


def saves_an_adapter_whole(model: str, folder: Path) -> None:
    """What ZeRO-3 has parted in the model, an adapter as well, is whole in its file."""
    config = LearnerConfig(gradient_checkpointing=False, deepspeed=str(folder / "zero3.json"))
    learner = Learner(model, config, Precision(torch.device("cpu"), torch.float32), lora=(4, 32), name="mlp")
    learner.save(folder / "saved")
    if ranks.is_first():
        saved = load_file(folder / "saved" / "adapter" / "adapter_model.safetensors")
        assert saved["base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"].shape == (4, 256)
        assert all(weight.dim() == 2 and bool(weight.any()) == ("lora_A" in name) for name, weight in saved.items())


def main() -> None:
    torch.set_num_threads(1)
    episodes, out, model, configurations = sys.argv[1:5]
    for name, settings in json.loads(configurations).items():
        result = run(Path(episodes), model, settings)
        if ranks.is_first():
            torch.save(result, Path(out) / f"{name}.pt")
    saves_an_adapter_whole(model, Path(out))


if __name__ == "__main__":
    with ranks.ending_together():
        main()
