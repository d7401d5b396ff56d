"""The policy that learns: a transformers model inside a DeepSpeed engine. The only package that knows DeepSpeed.

The loss already holds every factor (`batch.share_BT`), so gradients are summed: over micro-batches by accumulation and
over ranks by undoing DeepSpeed's average. Every rank holds the whole batch and computes its own micro-batches of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from algos import ranks
from algos.algorithm import Metrics, Out
from algos.batch import Batch, deal
from algos.config import LearnerConfig
from algos.deepspeed_config import deepspeed_config, offloads, zero_stage
from algos.learner.learning_rate import learning_rate_factor
from algos.learner.load import load
from algos.learner.not_finite import NotFinite, nothing, suspects
from algos.learner.start import check_deepspeed, start_deepspeed
from algos.learner.states import States
from algos.lora import Adapter
from algos.scoring import Precision, Scorer, score, score_all, value_all

__all__ = ["AdaptersOff", "Learner", "Loss", "NotFinite", "check_deepspeed", "learning_rate_factor", "start_deepspeed"]

Loss = Callable[[Out, Batch], tuple[Tensor, Metrics]]


class Learner:
    """One policy's weights, optimizer and schedule.

    Args:
        folder: a Hugging Face model folder.
        config: learning rate, clipping, ZeRO stage, ...
        precision: device and dtype; bfloat16 keeps float32 master weights.
        temperature: of sampling; log-probabilities are taken under it.
        total_updates: the length of the learning-rate schedule [optimizer steps].
        needs: as `Algorithm.needs`.
        lora: rank and alpha of an adapter to train instead of the weights; None: the weights.
        name: the policy's, and its adapter's.
        base: a learner whose base the adapter is put on as well, so that it is held once.

    Raises:
        ValueError: adapters of several policies on a base that ZeRO-3 has parted.
    """

    def __init__(
        self,
        folder: str,
        config: LearnerConfig,
        precision: Precision,
        *,
        temperature: float = 1.0,
        total_updates: int = 1,
        needs: Sequence[str] = (),
        lora: tuple[int, int] | None = None,
        name: str = "policy",
        base: Learner | None = None,
    ) -> None:
        self._deepspeed = start_deepspeed()
        ranks.wait()  # who died before is noticed here; DeepSpeed's making of groups would wait for it
        self.config, self.precision, self.temperature = config, precision, temperature
        self._needs_entropy, self._needs_value = "entropy" in needs, "value" in needs
        self._stage = zero_stage(config)
        told = deepspeed_config(config, bf16=precision.bf16, ranks=ranks.count())
        self._offloads = offloads(told["zero_optimization"])
        self.adapter = self._adapter(folder, told, lora, name, base) if lora else None
        self.model: nn.Module = self.adapter.model if self.adapter else load(folder, config, precision, told)
        self.scorer = Scorer(self.model, values=self._needs_value)
        trained = self.adapter.parameters() if self.adapter else list(self.model.parameters())
        if self.scorer.critic is not None:
            trained += list(self.scorer.critic.parameters())
        optimizer = self._optimizer(trained)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor(config, total_updates))
        self._clips_itself = self._stage == 0 and precision.dtype == torch.float32
        self._grad_norm = float("nan")
        if self._clips_itself:  # DeepSpeed forgets the norm where it wraps no optimizer
            told["gradient_clipping"] = 0.0
            optimizer.register_step_pre_hook(lambda *_: self._clip(trained))
        ranks.wait()  # and who died while it was loading
        self.engine, *_ = self._deepspeed.initialize(
            model=self.scorer, optimizer=optimizer, lr_scheduler=schedule, config=told
        )
        if precision.bf16 and self._stage < 2:  # with ZeRO 2 and 3 the configuration says so
            for parameter in trained:
                parameter.grad_dtype = torch.float32
        self.states = States(self.engine, can_rest=self._can_rest)
        if base is None:
            self.scorer.probe()
        else:
            self.scorer.chunked = base.scorer.chunked
        self.rest()

    def _adapter(
        self, folder: str, told: Mapping[str, Any], lora: tuple[int, int], name: str, base: Learner | None
    ) -> Adapter:
        if base is not None and self._stage == 3:
            raise ValueError(
                "--lora-rank with --team separate shares one base, which --zero-stage 3 cannot part: use 2"
            )
        rank, alpha = lora
        under = load(folder, self.config, self.precision, told) if base is None else base.adapter
        assert under is not None
        return Adapter.on(under, name, rank=rank, alpha=alpha, start_from=folder)

    def _optimizer(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        c = self.config
        if c.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=c.learning_rate, weight_decay=c.weight_decay)
        settings: dict[str, Any] = {"lr": c.learning_rate, "weight_decay": c.weight_decay}
        settings["betas"] = c.adam_beta1, c.adam_beta2
        if self._stage == 3 and self._may_rest and not self._offloads:
            return self._deepspeed.ops.adam.FusedAdam(parameters, **settings)  # ZeRO-3 moves no other's states away
        return torch.optim.AdamW(parameters, fused=self.precision.device.type == "cuda" or None, **settings)

    def _clip(self, parameters: list[nn.Parameter]) -> None:
        limit = self.config.max_grad_norm or float("inf")
        self._grad_norm = float(nn.utils.clip_grad_norm_(parameters, limit))

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] of the sampled tokens under the present weights, on the CPU, without gradients.

        Raises:
            ValueError: a token's id is not in the model's vocabulary.
        """
        batch.check_ids(self.scorer.vocabulary)
        tokens = self.config.micro_batch_tokens
        self._wear()
        return score_all(self.engine, batch, self.precision.device, temperature=self.temperature, tokens=tokens)

    def values(self, batch: Batch) -> Tensor:
        """value_BK, what the critic expects at the start of each turn, on the CPU, without gradients."""
        tokens = self.config.micro_batch_tokens
        self._wear()
        return value_all(self.engine, batch, self.precision.device, temperature=self.temperature, tokens=tokens)

    def reference_logp(self, batch: Batch) -> Tensor:
        """As `logp`, under the base with its adapters off."""
        assert self.adapter is not None
        with self.adapter.off():
            return self.logp(batch)

    def _wear(self) -> None:
        if self.adapter is not None:
            self.adapter.wear()
            self.adapter.base.rise()

    def backward(self, minibatch: Batch, loss: Loss) -> dict[str, float]:
        """Accumulate the gradient of `loss` over a minibatch, in micro-batches; returns the sums of its scalars."""
        sums: dict[str, float] = defaultdict(float)
        device = self.precision.device
        self._suspects: list[int] = []
        self._wear()
        self.states.rise()
        for index in deal(minibatch, self.config.micro_batch_tokens, ranks.count())[ranks.number()]:
            micro = minibatch.rows(index)
            asked = {"entropy": self._needs_entropy, "values": self._needs_value}
            out = score(self.engine, micro, device, temperature=self.temperature, **asked)
            value, scalars = loss(out, micro.to(device)) if len(micro) else (nothing(out), {})
            if not torch.isfinite(value):  # then no gradient is, whatever it would be: so all ranks leave the step out
                self._suspects += suspects(out, micro)
                value = nothing(out) * float("nan")
            self.engine.backward(value * self.engine.dp_world_size, scale_wrt_gas=False)
            if len(micro):
                for name, scalar in {"loss": value.detach(), **scalars}.items():
                    sums[name] += float(scalar)
        return _added_up(ranks.gather(dict(sums)))

    def step(self) -> dict[str, float]:
        """One optimizer step on what was accumulated.

        Raises:
            NotFinite: it would not be one; nothing has changed and what was accumulated is forgotten.
        """
        learning_rate = self.engine.optimizer.param_groups[0]["lr"]
        if not self._clips_itself or self._finite():
            self.engine.step()
            applied = self.engine.was_step_applied()
        else:
            self.engine.zero_grad()
            applied = False
        if not applied:
            raise NotFinite(sorted({s for found in ranks.gather(self._suspects) for s in found}))
        norm = self._grad_norm if self._clips_itself else float(self.engine.get_global_grad_norm())
        return {"grad_norm": norm, "learning_rate": learning_rate}

    def _finite(self) -> bool:
        grads = (p.grad for p in self.scorer.parameters() if p.grad is not None)
        return all(ranks.gather(all(bool(torch.isfinite(grad).all()) for grad in grads)))

    def update(self, minibatch: Batch, loss: Loss) -> dict[str, float]:
        """One optimizer step on a minibatch.

        Returns:
            the loss's scalars (sums over the minibatch), `loss`, `grad_norm` before clipping, `learning_rate`.

        Raises:
            NotFinite: the loss or its gradient is not; nothing has changed.
        """
        sums = self.backward(minibatch, loss)
        try:
            return {**sums, **self.step()}
        except NotFinite as error:
            every = sorted(set(minibatch.trajectory_B.tolist()))
            raise NotFinite(error.trajectories or every) from None

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter by its Hugging Face name, detached; tied ones once; with what an adapter adds to it.

        Under ZeRO-3 each is whole only until the next is asked for, and every rank has to go through all of them.
        """
        if self.adapter is not None:
            yield from self.adapter.merged(self._whole)
            return
        for name, parameter in self.model.named_parameters():
            with self._whole(parameter):
                yield name, parameter.detach()

    def adapter_weights(self) -> Iterator[tuple[str, Tensor]]:
        """As `named_weights`, of the adapter alone, named as in peft's files."""
        assert self.adapter is not None
        return self.adapter.tensors(self._whole)

    @property
    def holds_all(self) -> bool:
        """Whether this process can give its weights without the other ranks."""
        return self._stage < 3 or ranks.count() == 1

    def _whole(self, parameter: nn.Parameter) -> Any:
        return self._deepspeed.zero.GatheredParameters([parameter]) if self._stage == 3 else nullcontext()

    def save(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder (safetensors). Every rank takes part, the first one writes.

        With LoRA that is the base with the adapter merged into it; the adapter alone is in its folder `adapter`.
        """
        weights = _for_writing(self.named_weights()) if self._stage == 3 or self.adapter else None
        own = _for_writing(self.adapter_weights()) if self.adapter else {}
        if ranks.is_first():
            model: Any = self.model if self.adapter is None else self.adapter.model.get_base_model()
            model.save_pretrained(folder, state_dict=weights)
            if self.adapter is not None:
                self.adapter.save(folder / "adapter", own)

    def save_state(self, folder: Path) -> None:
        """Write optimizer, schedule and weights for an exact resume. Every rank writes its part."""
        self._wear()
        self.states.save(folder, frozen=self.adapter is None)  # under an adapter the base is where it was

    def load_state(self, folder: Path) -> None:
        """Restore what `save_state` wrote, but for the settings of the optimizer, which are as they are now.

        Raises:
            ValueError: there is nothing to restore, or it is damaged or of another form.
        """
        self._wear()
        self.states.load(folder, frozen=self.adapter is None)

    def rest(self) -> None:
        """Move to host memory, until it is needed again, what a sampler needs the GPU for.

        That is optimizer states and master weights, with ZeRO 1 to 3, and the base under adapters, without ZeRO-3.
        """
        if self.adapter is not None and self._may_rest and self._stage < 3:
            self.adapter.base.rest()
        self.states.rest()

    @property
    def _may_rest(self) -> bool:
        return self.precision.device.type == "cuda" and self.config.offload_while_sampling

    @property
    def _can_rest(self) -> bool:
        """What DeepSpeed offloads for good it moves no more, nor, under ZeRO-3, states that are not AdamW's."""
        moves = not self._offloads and (self._stage < 3 or self.config.optimizer == "adamw")
        return self._may_rest and self._stage >= 1 and moves


@dataclass(frozen=True)
class AdaptersOff:
    """The reference of a policy that trains an adapter: its base."""

    learner: Learner

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] on the CPU."""
        return self.learner.reference_logp(batch)


def _added_up(sums: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for of_rank in sums for name in of_rank)
    return {name: sum(of_rank.get(name, 0.0) for of_rank in sums) for name in names}


def _for_writing(named_weights: Iterator[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """Copies in host memory, on the rank that writes; every other one only takes part in making each whole."""
    return {name: weight.to("cpu", copy=True) for name, weight in named_weights if ranks.is_first()}
