"""Log-probabilities out of hidden states, chunk by chunk: (tokens x vocabulary) never exists at once.

    z_t = f(W h_t + b) / temperature,   f(x) = cap tanh(scale x / cap)   (most architectures: f(x) = x)
    logp_t = z_t[y_t] - logsumexp(z_t)
    d logp_t / d h_t = W^T ((e_{y_t} - p_t) * f') / temperature

The derivative by h_t is formed in the forward pass, while the chunk's logits are at hand; the backward pass multiplies
it by what comes from above. Only a head that learns makes the backward pass compute the logits once more, all tokens by
a slice of the vocabulary: each row of W's gradient is one product over all tokens, which rounds once, where a sum over
chunks of tokens would round to the head's 16 bits at every chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**24
"""Logits of one chunk: 64 MiB in float32."""


@dataclass(frozen=True)
class Shape:
    """What an architecture does to the head's output before it is a logit.

    Attributes:
        scale: multiplies it.
        cap: then bends it into (-cap, cap); 0: does not.
    """

    scale: float = 1.0
    cap: float = 0.0

    @classmethod
    def of(cls, config: Any) -> Shape:
        """As a transformers configuration tells it, by the names that its architectures use."""
        scale = float(getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None) or 1.0)
        scale /= float(getattr(config, "logits_scaling", None) or 1.0)
        return cls(scale, float(getattr(config, "final_logit_softcapping", None) or 0.0))


def token_logps(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    bias_V: Tensor | None,
    token_N: Tensor,
    *,
    temperature: float = 1.0,
    shape: Shape | None = None,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Log-probability [nats, float32] of each token, and the entropy [nats] of its distribution where asked for.

    Args:
        hidden_NH: the head's input in front of each token.
        weight_VH, bias_V: the head.
        token_N: int64, the tokens.
        temperature: divides the logits.
        shape: the architecture's own scaling and capping.
    """
    logp_N, entropy_N = _TokenLogps.apply(hidden_NH, weight_VH, bias_V, token_N, temperature, shape or Shape(), entropy)
    return logp_N, entropy_N if entropy else None


def answers_with_logps(head: torch.nn.Linear, shape: Shape) -> None:
    """Teach a head to answer with log-probabilities where it is told the tokens, and with logits where it is not."""
    logits = head.forward

    def forward(
        hidden_NH: Tensor, token_N: Tensor | None = None, temperature: float = 1.0, entropy: bool = False
    ) -> Any:
        if token_N is None:
            return logits(hidden_NH)
        return token_logps(
            hidden_NH, head.weight, head.bias, token_N, temperature=temperature, shape=shape, entropy=entropy
        )

    head.forward = forward  # type: ignore[method-assign, assignment]


def _chunks(length: int, across: int) -> Iterator[slice]:
    """Parts of one axis of the logits, each with `CHUNK_ELEMENTS` at most; `across` is the other axis' length."""
    size = max(1, CHUNK_ELEMENTS // max(1, across))
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


class _TokenLogps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        token_N: Tensor,
        temperature: float,
        shape: Shape,
        entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        head = _Head(weight_VH, bias_V, temperature, shape)
        N, differentiable = len(hidden_NH), ctx.needs_input_grad[0]
        logp_N = _wide(hidden_NH.new_zeros(N))
        total_N = torch.zeros_like(logp_N)
        entropy_N = torch.zeros_like(logp_N if entropy else logp_N[:0])
        by_logp_NH = torch.zeros_like(hidden_NH if differentiable else hidden_NH[:0])
        by_entropy_NH = torch.zeros_like(hidden_NH if differentiable and entropy else hidden_NH[:0])
        for part in _chunks(N, len(weight_VH)):
            z_NV, slope_NV = head.logits(hidden_NH[part])
            own_N = z_NV.gather(1, token_N[part, None])[:, 0]
            p_NV, total_N[part], entropy_N[part if entropy else slice(0)] = _softmax(z_NV, entropy)
            logp_N[part] = own_N - total_N[part]
            if differentiable and entropy:
                by_z_NV = -p_NV * (_log(p_NV) + entropy_N[part, None])
                by_entropy_NH[part] = head.backward(by_z_NV, slope_NV) @ weight_VH
            if differentiable:
                by_z_NV = _logp_by_logits(p_NV, token_N[part], torch.ones_like(own_N))
                by_logp_NH[part] = head.backward(by_z_NV, slope_NV) @ weight_VH
        ctx.save_for_backward(by_logp_NH, by_entropy_NH, hidden_NH, weight_VH, bias_V, token_N, total_N, entropy_N)
        ctx.settings = temperature, shape, entropy
        return logp_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        logp_grad_N, entropy_grad_N = upstream
        by_logp_NH, by_entropy_NH, hidden_NH, weight_VH, bias_V, token_N, total_N, entropy_N = ctx.saved_tensors
        temperature, shape, entropy = ctx.settings
        hidden_grad = None
        if ctx.needs_input_grad[0]:
            hidden_grad = by_logp_NH * logp_grad_N[:, None].to(by_logp_NH.dtype)
            if entropy:
                hidden_grad += by_entropy_NH * entropy_grad_N[:, None].to(by_logp_NH.dtype)
        if not (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            return hidden_grad, None, None, None, None, None, None
        weight_grad = torch.empty_like(weight_VH)
        bias_grad = None if bias_V is None else torch.empty_like(bias_V)
        for part in _chunks(len(weight_VH), len(hidden_NH)):
            head = _Head(weight_VH[part], None if bias_V is None else bias_V[part], temperature, shape)
            z_NW, slope_NW = head.logits(hidden_NH)
            z_NW -= total_N[:, None]
            more_NW = None
            if entropy:
                more_NW = -z_NW.exp() * (z_NW + entropy_N[:, None]) * entropy_grad_N[:, None]
            by_z_NW = _logp_by_logits(z_NW.exp_(), token_N - part.start, logp_grad_N)
            by_raw_NW = head.backward(by_z_NW if more_NW is None else by_z_NW + more_NW, slope_NW)
            torch.mm(by_raw_NW.T, hidden_NH, out=weight_grad[part])
            if bias_grad is not None:
                bias_grad[part] = by_raw_NW.sum(0)
        return (
            hidden_grad,
            weight_grad if ctx.needs_input_grad[1] else None,
            bias_grad if ctx.needs_input_grad[2] else None,
            *[None] * 4,
        )


@dataclass(frozen=True)
class _Head:
    """The head with all that follows it up to a logit."""

    weight_VH: Tensor
    bias_V: Tensor | None
    temperature: float
    shape: Shape

    def logits(self, hidden_NH: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits under the temperature (float32), and f' where it is not constant."""
        z_NV = _wide(torch.nn.functional.linear(hidden_NH, self.weight_VH, self.bias_V))
        scale, cap = self.shape.scale, self.shape.cap
        if not cap:
            factor = scale / self.temperature
            return (z_NV if factor == 1 else z_NV.mul_(factor)), None
        bent_NV = z_NV.mul_(scale / cap).tanh_()
        return bent_NV * (cap / self.temperature), 1 - bent_NV**2

    def backward(self, by_z_NV: Tensor, slope_NV: Tensor | None) -> Tensor:
        """The derivative by the head's raw output, in the head's dtype; `by_z_NV` is used up."""
        factor = self.shape.scale / self.temperature
        if factor != 1:
            by_z_NV *= factor
        if slope_NV is not None:
            by_z_NV *= slope_NV
        return by_z_NV.to(self.weight_VH.dtype)


def _wide(tensor: Tensor) -> Tensor:
    """In float32 at least: sums over a vocabulary are never taken in 16 bits."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _softmax(z_NV: Tensor, entropy: bool) -> tuple[Tensor, Tensor, Tensor | float]:
    """Probabilities, logsumexp and, where asked for, entropy of logits, which are used up; one exp for each."""
    highest_N1 = z_NV.amax(-1, keepdim=True)
    p_NV = z_NV.sub_(highest_N1).exp_()
    sum_N1 = p_NV.sum(-1, keepdim=True)
    total_N = (highest_N1 + sum_N1.log())[:, 0]
    p_NV /= sum_N1
    return p_NV, total_N, -(p_NV * _log(p_NV)).sum(-1) if entropy else 0.0


def _log(p_NV: Tensor) -> Tensor:
    """The logarithm, with 0 where p is so small that p log p is 0 anyway."""
    return p_NV.clamp(min=torch.finfo(p_NV.dtype).tiny).log_()


def _logp_by_logits(p_NV: Tensor, token_N: Tensor, weight_N: Tensor) -> Tensor:
    """(e_y - p), times a weight for each token; the probabilities are used up. A token that is no column has no e_y."""
    column_N = token_N.clamp(0, p_NV.shape[1] - 1)
    own_N = torch.where(column_N == token_N, weight_N, 0)
    return p_NV.mul_(-weight_N[:, None]).scatter_add_(1, column_N[:, None], own_N[:, None])
