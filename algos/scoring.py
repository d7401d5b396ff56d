"""What a policy says about tokens it has sampled: their log-probabilities, from any causal language model.

The head runs at trained positions alone, and the shift by one token happens here and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from algos import ranks
from algos.algorithm import Out
from algos.batch import Batch, deal
from algos.head import Shape, answers_with_logps
from rema_agents.pretrained import load_causal_lm


@dataclass(frozen=True)
class Precision:
    """Where and how a model computes."""

    device: torch.device
    dtype: torch.dtype

    @property
    def bf16(self) -> bool:
        """Whether it computes in bfloat16."""
        return self.dtype == torch.bfloat16

    @classmethod
    def here(cls, bf16: bool | None) -> Precision:
        """The local rank's GPU, else the CPU; `bf16` None means: on GPUs yes, on a CPU no."""
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            return cls(device, torch.float32 if bf16 is False else torch.bfloat16)
        return cls(torch.device("cpu"), torch.bfloat16 if bf16 else torch.float32)


def load_model(
    folder: str,
    precision: Precision,
    *,
    gradient_checkpointing: bool = False,
    whole: Callable[[nn.Parameter], Any] = nullcontext,
) -> nn.Module:
    """A causal language model without noise, so that sampling and scoring see the same policy.

    Args:
        whole: as `rema_agents.pretrained.load_causal_lm`, and it raises what that raises.
    """
    model: Any = load_causal_lm(folder, dtype=precision.dtype, whole=whole).to(precision.device)
    silence(model)
    model.config.use_cache = False
    if gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def silence(model: nn.Module) -> None:
    """Set every rate of dropout, layer dropping and router jitter to 0.

    Training mode is needed to recompute activations, so evaluation mode cannot do it; and architectures keep their
    rates in modules of their own, as plain numbers of a layer, or read them from the configuration at each forward.
    """
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for holder in (module, getattr(module, "config", None)):
            for name, rate in list(getattr(holder, "__dict__", {}).items()):
                if isinstance(rate, float) and ("drop" in name or "jitter" in name):
                    setattr(holder, name, 0.0)


class Scorer(nn.Module):
    """A causal language model that answers with log-probabilities of given tokens instead of logits.

    The head's own module computes them, chunk by chunk, so whatever is hooked to it (ZeRO-3 gathers its weights there)
    still works. Where the architecture does something to its logits that `Shape` does not know, `probe` finds it out
    and the model's own logits, at the trained positions alone, are used instead.

    Args:
        model: a transformers model, or a peft model around one.
        values: also have a critic: one linear output on the last hidden state, which starts at 0.
    """

    def __init__(self, model: nn.Module, *, values: bool = False) -> None:
        super().__init__()
        self.model = model
        self.critic: nn.Linear | None = None
        if values:
            weight = next(model.parameters())
            width = self._head.in_features  # ZeRO-3 has parted the weight, so its shape does not tell
            self.critic = nn.Linear(width, 1, device=weight.device, dtype=weight.dtype)
            nn.init.zeros_(self.critic.weight)
            nn.init.zeros_(self.critic.bias)
        self.chunked = isinstance(self._head, nn.Linear)
        if self.chunked:
            answers_with_logps(self._head, Shape.of(self._causal.config))

    @property
    def vocabulary(self) -> int:
        """How many tokens have an embedding."""
        return int(self._causal.get_input_embeddings().num_embeddings)

    @property
    def _causal(self) -> Any:
        get = getattr(self.model, "get_base_model", None)
        return get() if get else self.model

    @property
    def _head(self) -> Any:
        return self._causal.get_output_embeddings()

    def forward(
        self,
        ids_BT: Tensor,
        before_BT: Tensor,
        token_N: Tensor,
        temperature: float,
        entropy: bool,
        state_BT: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """logp_N [nats] of tokens, each following a True position of `before_BT`; and their entropy_N where asked.

        The third is the critic's value_N at the True positions of `state_BT`, where there is a critic.
        """
        if self.chunked:
            hidden_BTH = self._causal.base_model(input_ids=ids_BT, use_cache=False)[0]
            logp_N, entropy_N = self._head(hidden_BTH[before_BT], token_N, temperature, entropy)
            return logp_N, entropy_N, self._values(hidden_BTH, state_BT)
        asks = self.critic is not None and state_BT is not None
        with head_sees_only(self._causal, before_BT):
            said = self._causal(input_ids=ids_BT, use_cache=False, output_hidden_states=asks)
        logp_NV = torch.log_softmax(said.logits.float() / temperature, dim=-1)
        logp_N = logp_NV.gather(1, token_N[:, None])[:, 0]
        entropy_N = -(logp_NV.exp() * logp_NV).sum(-1) if entropy else None
        return logp_N, entropy_N, self._values(said.hidden_states[-1], state_BT) if asks else None

    def _values(self, hidden_BTH: Tensor, state_BT: Tensor | None) -> Tensor | None:
        if self.critic is None or state_BT is None:
            return None
        value_N: Tensor = self.critic(hidden_BTH[state_BT])[:, 0].float()
        return value_N

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
    forward: Callable[..., Any],
    batch: Batch,
    device: torch.device,
    *,
    temperature: float,
    entropy: bool = False,
    values: bool = False,
) -> Out:
    """Log-probabilities of the sampled tokens under the temperature used; the only place that shifts by one.

    Rows are padded on the right and attention is causal, so no real token sees padding and no mask is needed.

    Args:
        forward: a `Scorer`, or the engine around it.
        batch: rows of one micro-batch, on the CPU; none at all still runs the model, on a token that does not count.
        device: the model's.
        temperature: divides the logits.
        entropy: also give `Out.entropy_BT`.
        values: also give `Out.value_BK`; needs a scorer with a critic.
    """
    ids_BT, trained_BT = batch.ids_BT, batch.trained_BT
    if not len(batch):
        ids_BT, trained_BT = torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.bool)
    ids_BT, trained_BT = ids_BT.to(device), trained_BT.to(device)
    token_N = ids_BT[:, 1:][trained_BT[:, 1:]]
    first_BT = turn_starts(batch.turn_BT).to(device) if values and len(batch) else torch.zeros_like(trained_BT)
    state_BT = _one_before(first_BT) if values else None
    logp_N, entropy_N, value_N = forward(ids_BT, _one_before(trained_BT), token_N, temperature, entropy, state_BT)
    value_BK = None
    if value_N is not None:
        b_N, t_N = torch.nonzero(first_BT, as_tuple=True)
        turn_N = batch.turn_BT.to(device)[b_N, t_N] if len(batch) else b_N
        K = int(batch.turn_BT.max()) + 1 if len(batch) else 1
        value_BK = value_N.new_zeros(len(ids_BT), K).index_put((b_N, turn_N), value_N)
    return Out(_scatter(trained_BT, logp_N), None if entropy_N is None else _scatter(trained_BT, entropy_N), value_BK)


def turn_starts(turn_BT: Tensor) -> Tensor:
    """bool, True at the first sampled token of each turn."""
    earlier_BT = torch.cat([torch.full_like(turn_BT[:, :1], -1), turn_BT[:, :-1]], dim=1)
    return (turn_BT >= 0) & (turn_BT != earlier_BT)


def _one_before(where_BT: Tensor) -> Tensor:
    """True at the position in front of each True one."""
    before_BT = torch.zeros_like(where_BT)
    before_BT[:, :-1] = where_BT[:, 1:]
    return before_BT


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


@torch.no_grad()
def value_all(
    forward: Callable[..., Any], batch: Batch, device: torch.device, *, temperature: float, tokens: int
) -> Tensor:
    """value_BK of a whole batch, as `score_all` has its log-probabilities."""
    value_BK = torch.zeros(len(batch), int(batch.turn_BT.max()) + 1)
    for index in deal(batch, tokens, ranks.count())[ranks.number()]:
        micro = batch.rows(index)
        found_BK = score(forward, micro, device, temperature=temperature, values=True).value_BK
        if len(index) and found_BK is not None:
            value_BK[index, : found_BK.shape[1]] = found_BK.cpu()
    return ranks.add_up(value_BK)


class Reference:
    """A frozen policy that only scores: the start of training, for a KL term."""

    def __init__(self, folder: str, precision: Precision, *, temperature: float, micro_batch_tokens: int) -> None:
        self.scorer = Scorer(load_model(folder, precision).eval())
        self.scorer.probe()
        self._device, self._temperature, self._tokens = precision.device, temperature, micro_batch_tokens

    def logp(self, batch: Batch) -> Tensor:
        """logp_BT [nats] on the CPU."""
        return score_all(self.scorer, batch, self._device, temperature=self._temperature, tokens=self._tokens)
