"""What a policy says about tokens it has sampled: their log-probabilities, from any causal language model.

The head runs at trained positions alone, and the shift by one token happens here and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from algos.algorithm import Out
from algos.batch import Batch, micro_batches


@dataclass(frozen=True)
class Precision:
    """Where and how a model computes."""

    device: torch.device
    dtype: torch.dtype

    @classmethod
    def here(cls, bf16: bool | None) -> Precision:
        """The local rank's GPU, else the CPU; `bf16` None means: on GPUs yes, on a CPU no."""
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            return cls(device, torch.float32 if bf16 is False else torch.bfloat16)
        return cls(torch.device("cpu"), torch.bfloat16 if bf16 else torch.float32)


def load_model(folder: str, precision: Precision, *, gradient_checkpointing: bool = False) -> nn.Module:
    """A causal language model without dropout, so that sampling and scoring see the same policy."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=precision.dtype).to(precision.device)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    model.config.use_cache = False
    if gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


@contextmanager
def head_sees_only(model: nn.Module, position_BT: Tensor) -> Iterator[None]:
    """Within: the language-model head is applied at these positions alone, so logits are (N, V), never (B, T, V).

    A hook in front of the head keeps whatever the architecture does behind it (scaling, soft caps).
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    handle = head.register_forward_pre_hook(lambda _, args: (args[0][position_BT],))
    try:
        yield
    finally:
        handle.remove()


def score(
    forward: Callable[..., Any], model: nn.Module, batch: Batch, *, temperature: float, entropy: bool = False
) -> Out:
    """Log-probabilities of the sampled tokens under the temperature used; the only place that shifts by one.

    Rows are padded on the right and attention is causal, so no real token sees padding and no mask is needed.

    Args:
        forward: the model, or the engine around it.
        model: whose head to narrow.
        batch: rows of one micro-batch, on the CPU.
        temperature: divides the logits.
        entropy: also give `Out.entropy_BT`.
    """
    device = next(model.parameters()).device
    ids_BT = batch.ids_BT.to(device)
    trained_BT = batch.trained_BT.to(device)
    before_BT = torch.zeros_like(trained_BT)
    before_BT[:, :-1] = trained_BT[:, 1:]
    with head_sees_only(model, before_BT):
        logits_NV = forward(input_ids=ids_BT, use_cache=False).logits
    logits_NV = logits_NV.float() / temperature
    sampled_N = ids_BT[:, 1:][trained_BT[:, 1:]]
    logp_NV = torch.log_softmax(logits_NV, dim=-1)
    logp_BT = _scatter(trained_BT, logp_NV.gather(1, sampled_N[:, None]).squeeze(1))
    return Out(logp_BT, _scatter(trained_BT, -(logp_NV.exp() * logp_NV).sum(-1)) if entropy else None)


def _scatter(where_BT: Tensor, value_N: Tensor) -> Tensor:
    """A (B, T) tensor with the values at the True places, in order, and 0 elsewhere."""
    return torch.zeros(where_BT.shape, dtype=value_N.dtype, device=value_N.device).masked_scatter(where_BT, value_N)


@torch.no_grad()
def score_all(
    forward: Callable[..., Any], model: nn.Module, batch: Batch, *, temperature: float, tokens: int
) -> Tensor:
    """logp_BT of a whole batch, on the CPU, without gradients, in micro-batches of `tokens`."""
    logp_BT = torch.zeros(batch.ids_BT.shape)
    for index in micro_batches(batch, tokens):
        micro = batch.rows(index)
        micro_logp_BT = score(forward, model, micro, temperature=temperature).logp_BT
        logp_BT[index, : micro.ids_BT.shape[1]] = micro_logp_BT.float().cpu()
    return logp_BT


class Reference:
    """A frozen policy that only scores: the start of training, for a KL term."""

    def __init__(self, folder: str, precision: Precision, *, temperature: float, micro_batch_tokens: int) -> None:
        self.model = load_model(folder, precision).eval()
        self._temperature, self._tokens = temperature, micro_batch_tokens

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] on the CPU."""
        return score_all(self.model, self.model, batch, temperature=self._temperature, tokens=self._tokens)
