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

from algos import ranks
from algos.algorithm import Out
from algos.batch import Batch, deal
from algos.head import Shape, token_logps


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


class Scorer(nn.Module):
    """A causal language model that answers with log-probabilities of given tokens instead of logits.

    The head's own module computes them, chunk by chunk, so whatever is hooked to it (ZeRO-3 gathers its weights there)
    still works. Where the architecture does something to its logits that `Shape` does not know, `probe` finds it out
    and the model's own logits, at the trained positions alone, are used instead.

    Args:
        model: a transformers model, or a peft model around one.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.chunked = isinstance(self._head, nn.Linear)
        if self.chunked:
            _answers_with_logps(self._head, Shape.of(self._causal.config))

    @property
    def _causal(self) -> Any:
        get = getattr(self.model, "get_base_model", None)
        return get() if get else self.model

    @property
    def _head(self) -> Any:
        return self._causal.get_output_embeddings()

    def forward(
        self, ids_BT: Tensor, before_BT: Tensor, token_N: Tensor, temperature: float, entropy: bool
    ) -> tuple[Tensor, Tensor | None]:
        """logp_N [nats] of tokens, each following a True position of `before_BT`; and their entropy_N where asked."""
        if self.chunked:
            hidden_BTH = self._causal.base_model(input_ids=ids_BT, use_cache=False)[0]
            logp_N, entropy_N = self._head(hidden_BTH[before_BT], token_N, temperature, entropy)
            return logp_N, entropy_N
        with head_sees_only(self._causal, before_BT):
            logits_NV = self._causal(input_ids=ids_BT, use_cache=False).logits.float() / temperature
        logp_NV = torch.log_softmax(logits_NV, dim=-1)
        logp_N = logp_NV.gather(1, token_N[:, None])[:, 0]
        return logp_N, -(logp_NV.exp() * logp_NV).sum(-1) if entropy else None

    @torch.no_grad()
    def probe(self) -> None:
        """Compare with the model's own logits, at hidden states large enough for a soft cap to show."""
        if not self.chunked:
            return
        device = next(self.parameters()).device
        ids_BT = torch.arange(1, 9, device=device)[None]
        token_N = ids_BT[0]
        with _head_input(self._head) as seen:
            own_NV = self._causal(input_ids=ids_BT, use_cache=False).logits[0].float()
        hidden_BTH = self._causal.base_model(input_ids=ids_BT, use_cache=False)[0]
        logp_N, _ = self._head(seen[0][0], token_N, 1.0, False)
        own_N = torch.log_softmax(own_NV, -1).gather(1, token_N[:, None])[:, 0]
        exact = seen[0].dtype in (torch.float32, torch.float64)
        near = (1e-4 if exact else 2e-2) * max(1.0, float(own_NV.abs().max()))
        same_hidden = torch.allclose(hidden_BTH * _PROBE_GAIN, seen[0], rtol=near, atol=near)
        self.chunked = same_hidden and bool((logp_N - own_N).abs().max() <= near)


_PROBE_GAIN = 8.0


@contextmanager
def _head_input(head: nn.Module) -> Iterator[list[Tensor]]:
    """Within: what goes into the head is enlarged, and kept."""
    seen: list[Tensor] = []

    def enlarge(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        seen.append(args[0] * _PROBE_GAIN)
        return (seen[-1],)

    handle = head.register_forward_pre_hook(enlarge)
    try:
        yield seen
    finally:
        handle.remove()


def _answers_with_logps(head: nn.Linear, shape: Shape) -> None:
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

    head.forward = forward  # type: ignore[method-assign]


@contextmanager
def head_sees_only(model: Any, position_BT: Tensor) -> Iterator[None]:
    """Within: the language-model head is applied at these positions alone, so logits are (N, V), never (B, T, V).

    A hook in front of the head keeps whatever the architecture does behind it.
    """
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, args: (args[0][position_BT],))
    try:
        yield
    finally:
        handle.remove()


def score(
    forward: Callable[..., Any], batch: Batch, device: torch.device, *, temperature: float, entropy: bool = False
) -> Out:
    """Log-probabilities of the sampled tokens under the temperature used; the only place that shifts by one.

    Rows are padded on the right and attention is causal, so no real token sees padding and no mask is needed.

    Args:
        forward: a `Scorer`, or the engine around it.
        batch: rows of one micro-batch, on the CPU; none at all still runs the model, on a token that does not count.
        device: the model's.
        temperature: divides the logits.
        entropy: also give `Out.entropy_BT`.
    """
    ids_BT, trained_BT = batch.ids_BT, batch.trained_BT
    if not len(batch):
        ids_BT, trained_BT = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.bool)
    ids_BT, trained_BT = ids_BT.to(device), trained_BT.to(device)
    before_BT = torch.zeros_like(trained_BT)
    before_BT[:, :-1] = trained_BT[:, 1:]
    token_N = ids_BT[:, 1:][trained_BT[:, 1:]]
    logp_N, entropy_N = forward(ids_BT, before_BT, token_N, temperature, entropy)
    return Out(_scatter(trained_BT, logp_N), None if entropy_N is None else _scatter(trained_BT, entropy_N))


def _scatter(where_BT: Tensor, value_N: Tensor) -> Tensor:
    """A (B, T) tensor with the values at the True places, in order, and 0 elsewhere."""
    return torch.zeros(where_BT.shape, dtype=value_N.dtype, device=value_N.device).masked_scatter(where_BT, value_N)


@torch.no_grad()
def score_all(
    forward: Callable[..., Any], batch: Batch, device: torch.device, *, temperature: float, tokens: int
) -> Tensor:
    """logp_BT of a whole batch, on the CPU, without gradients, in micro-batches of `tokens` dealt out to the ranks."""
    logp_BT = torch.zeros(batch.ids_BT.shape)
    for index in deal(batch, tokens, ranks.count())[ranks.number()]:
        micro = batch.rows(index)
        micro_logp_BT = score(forward, micro, device, temperature=temperature).logp_BT.cpu()
        if len(index):
            logp_BT[index, : micro.ids_BT.shape[1]] = micro_logp_BT
    return ranks.add_up(logp_BT)


class Reference:
    """A frozen policy that only scores: the start of training, for a KL term."""

    def __init__(self, folder: str, precision: Precision, *, temperature: float, micro_batch_tokens: int) -> None:
        self.scorer = Scorer(load_model(folder, precision).eval())
        self.scorer.probe()
        self._device, self._temperature, self._tokens = precision.device, temperature, micro_batch_tokens

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] on the CPU."""
        return score_all(self.scorer, batch, self._device, temperature=self._temperature, tokens=self._tokens)
