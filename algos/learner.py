"""The policy that learns: a transformers model inside a DeepSpeed engine. The only file that knows DeepSpeed.

The loss already holds every factor (`batch.share_BT`), so gradients are summed: over micro-batches by accumulation and
over ranks by undoing DeepSpeed's average.
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from algos.algorithm import Metrics, Out
from algos.batch import Batch, micro_batches
from algos.config import LearnerConfig
from algos.scoring import Precision, load_model, score, score_all

Loss = Callable[[Out, Batch], tuple[Tensor, Metrics]]


def start_distributed() -> Any:
    """DeepSpeed with its process group up: the launcher's ranks, or this process alone."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("DEEPSPEED_LOG_LEVEL", "warning")
    import deepspeed

    if not torch.distributed.is_initialized():
        # Its CPU collectives are compiled at first use, for minutes; gloo's need no compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        if "RANK" not in os.environ:  # no launcher: a group of one, which needs no port
            os.environ.setdefault("LOCAL_RANK", "0")
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if os.path.exists("/sys/class/net/lo") else "lo0")
            torch.distributed.init_process_group(backend, store=_group_of_one(), rank=0, world_size=1)
        deepspeed.init_distributed(dist_backend=backend, verbose=False, auto_mpi_discovery=False)
    return deepspeed


def _group_of_one() -> Any:
    """A rendezvous that never leaves this process."""
    return torch.distributed.HashStore()  # type: ignore[attr-defined]


class Learner:
    """One policy's weights, optimizer and schedule.

    Args:
        folder: a Hugging Face model folder.
        config: learning rate, clipping, ZeRO stage, ...
        precision: device and dtype; bfloat16 keeps float32 master weights.
        temperature: of sampling; log-probabilities are taken under it.
        total_updates: the length of the learning-rate schedule [optimizer steps].
        needs: as `Algorithm.needs`.
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
    ) -> None:
        deepspeed = start_distributed()
        self.config, self.precision, self.temperature = config, precision, temperature
        self._needs_entropy = "entropy" in needs
        self.model = load_model(folder, precision, gradient_checkpointing=config.gradient_checkpointing)
        self.model.train(config.gradient_checkpointing)  # recomputation is armed by training mode; dropout is off
        trained = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = self._optimizer(deepspeed, trained)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor(config, total_updates))
        self._clips_itself = config.zero_stage == 0 and precision.dtype == torch.float32
        self._grad_norm = float("nan")
        if self._clips_itself:  # DeepSpeed forgets the norm where it wraps no optimizer
            optimizer.register_step_pre_hook(lambda *_: self._clip(trained))
        self.engine, *_ = deepspeed.initialize(
            model=self.model, optimizer=optimizer, lr_scheduler=schedule, config=self._deepspeed_config()
        )

    def _optimizer(self, deepspeed: Any, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        c = self.config
        on_gpu = self.precision.device.type == "cuda"
        adam = deepspeed.ops.adam.FusedAdam if on_gpu else torch.optim.AdamW  # both decouple the weight decay
        return adam(parameters, lr=c.learning_rate, betas=(c.adam_beta1, c.adam_beta2), weight_decay=c.weight_decay)

    def _deepspeed_config(self) -> dict[str, Any]:
        """What DeepSpeed is told; `--deepspeed FILE` is laid over it.

        The caller owns the accumulation boundary: `engine.step()` is one, however many micro-batches came before.
        """
        config: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,
            "gradient_clipping": 0.0 if self._clips_itself else self.config.max_grad_norm,
            "zero_optimization": {"stage": self.config.zero_stage},
            "bf16": {"enabled": self.precision.dtype == torch.bfloat16},
            "zero_allow_untested_optimizer": True,
            "steps_per_print": 10**9,
        }
        if self.config.deepspeed:
            config |= json.loads(Path(self.config.deepspeed).read_text())
        return config

    def _clip(self, parameters: list[nn.Parameter]) -> None:
        limit = self.config.max_grad_norm or float("inf")
        self._grad_norm = float(nn.utils.clip_grad_norm_(parameters, limit))

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] of the sampled tokens under the present weights, on the CPU, without gradients."""
        tokens = self.config.micro_batch_tokens
        return score_all(self.engine, self.model, batch, temperature=self.temperature, tokens=tokens)

    def backward(self, minibatch: Batch, loss: Loss) -> dict[str, float]:
        """Accumulate the gradient of `loss` over a minibatch, in micro-batches; returns the sums of its scalars."""
        sums: dict[str, float] = defaultdict(float)
        for index in micro_batches(minibatch, self.config.micro_batch_tokens):
            micro = minibatch.rows(index)
            out = score(self.engine, self.model, micro, temperature=self.temperature, entropy=self._needs_entropy)
            value, scalars = loss(out, micro.to(out.logp_BT.device))
            self.engine.backward(value * self.engine.dp_world_size, scale_wrt_gas=False)
            for name, scalar in {"loss": value.detach(), **scalars}.items():
                sums[name] += float(scalar)
        return dict(sums)

    def step(self) -> dict[str, float]:
        """One optimizer step on what was accumulated."""
        learning_rate = self.engine.optimizer.param_groups[0]["lr"]
        self.engine.step()
        norm = self._grad_norm if self._clips_itself else float(self.engine.get_global_grad_norm())
        return {"grad_norm": norm, "learning_rate": learning_rate}

    def update(self, minibatch: Batch, loss: Loss) -> dict[str, float]:
        """One optimizer step on a minibatch.

        Returns:
            the loss's scalars (sums over the minibatch), `loss`, `grad_norm` before clipping, `learning_rate`.
        """
        return {**self.backward(minibatch, loss), **self.step()}

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter by its Hugging Face name, detached; tied ones once."""
        for name, parameter in self.model.named_parameters():
            yield name, parameter.detach()

    def save(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder (safetensors)."""
        self.model.save_pretrained(folder)  # type: ignore[operator]

    def save_state(self, folder: Path) -> None:
        """Write optimizer, schedule and weights for an exact resume."""
        self.engine.save_checkpoint(str(folder), tag="state", save_latest=False)

    def load_state(self, folder: Path) -> None:
        """Restore what `save_state` wrote. Raises ValueError where there is nothing to restore."""
        loaded, _ = self.engine.load_checkpoint(str(folder), tag="state")
        if loaded is None:
            raise ValueError(f"{folder} holds no learner state that this DeepSpeed can read")


def learning_rate_factor(config: LearnerConfig, total_updates: int) -> Callable[[int], float]:
    """The learning rate's factor by update: a linear warm-up, then constant, linear or cosine decay to 0."""
    decays: Mapping[str, Callable[[float], float]] = {
        "constant": lambda _: 1.0,
        "linear": lambda done: 1 - done,
        "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    }
    decay = decays[config.lr_scheduler_type]
    warmup = config.warmup_steps

    def factor(update: int) -> float:
        if update < warmup:
            return (update + 1) / (warmup + 1)
        return decay(min(1.0, (update - warmup) / max(1, total_updates - warmup)))

    return factor
