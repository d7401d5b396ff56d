"""One call on its way through a transformers model, and the model as a function of ids at positions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rema_agents.gate import Gate
from rema_agents.kv import Kept, RaggedCache
from rema_agents.types import Completion, SamplingParams

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, eq=False)
class Asked:
    """One call from arrival to answer.

    Attributes:
        number: how many calls its dialogue made before.
        start: prompt tokens whose keys and values lie in the row `kept`.
    """

    prompt_ids: tuple[int, ...]
    params: SamplingParams
    dialogue: int
    number: int
    gate: Gate
    future: asyncio.Future[Completion]
    kept: Kept | None = None
    start: int = 0


class Decoder:
    """A transformers model as a function from ids at positions to the logits that follow them.

    Raises:
        ValueError: the model keeps a state other than keys and values, or its attention takes no masks.
    """

    def __init__(self, model: PreTrainedModel, *, pad_token_id: int, prefill_tokens: int) -> None:
        config = model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
        if not kinds <= {"full_attention", "sliding_attention"}:
            raise ValueError(f"{type(model).__name__} has layers {sorted(kinds)}; only attention layers can be served")
        if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
            raise ValueError(f"{type(model).__name__} biases attention by distance (ALiBi) and cannot be served here")
        if config._attn_implementation not in ("sdpa", "eager"):
            raise ValueError(
                f"{config._attn_implementation} attention takes no masks for rows of different lengths: load the model "
                'with attn_implementation="sdpa"'
            )
        self.model = model
        self.layers: int = config.num_hidden_layers
        self.max_positions: int | None = getattr(config, "max_position_embeddings", None)
        self.pad_token_id = pad_token_id
        self.prefill_tokens = prefill_tokens
        self._window: int | None = getattr(config, "sliding_window", None)
        self._mixed = "sliding_attention" in kinds
        self._additive = config._attn_implementation == "eager"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def logits(self, ids_NS: NDArray[np.int64] | Tensor, positions_NS: NDArray[np.int64], cache: RaggedCache) -> Tensor:
        """Run S tokens of N rows and keep their keys and values; logits_NV that follow each row's last token.

        Args:
            positions_NS: -1 where a row is padded, on the left.
        """
        ids_NS = torch.as_tensor(ids_NS, device=self.device)
        placed_NS = torch.as_tensor(positions_NS, device=self.device)
        seen = int(positions_NS.max()) + 1
        cache.at(placed_NS, seen)
        positions = placed_NS.clamp(min=0)
        output = self.model(
            input_ids=ids_NS,
            attention_mask=self._mask(positions, seen),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits_NV: Tensor = output.logits[:, -1]
        return logits_NV

    def load(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Copy weights in place. Raises ValueError for an unknown name or another shape."""
        own = self.model.state_dict()
        with torch.no_grad():
            for name, tensor in named_tensors:
                if name not in own:
                    raise ValueError(f"the model has no weight {name!r}; it has {', '.join(list(own)[:3])}, ...")
                if own[name].shape != tensor.shape:
                    raise ValueError(f"{name} is {tuple(tensor.shape)}, the model's is {tuple(own[name].shape)}")
                own[name].copy_(tensor)

    def _mask(self, positions_NS: Tensor, seen: int) -> Any:
        """Which of the `seen` columns each query attends to: those up to its position, within the window if any."""
        columns, query = torch.arange(seen, device=self.device), positions_NS[:, None, :, None]
        full = columns <= query
        if self._window is None:
            return self._as_attention_takes_it(full)
        near = full & (columns > query - self._window)
        if not self._mixed:
            return self._as_attention_takes_it(near)
        return {
            "full_attention": self._as_attention_takes_it(full),
            "sliding_attention": self._as_attention_takes_it(near),
        }

    def _as_attention_takes_it(self, mask: Tensor) -> Tensor:
        if not self._additive:
            return mask
        dtype = self.model.dtype
        return torch.zeros((), dtype=dtype, device=mask.device).where(mask, torch.finfo(dtype).min)
