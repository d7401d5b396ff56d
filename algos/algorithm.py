"""What an algorithm is: two pure functions and a few words. The training loop is written once, elsewhere.

`python -m algos run NAME` and the commands of this package hand such a value to `algos.trainer.train`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor

if TYPE_CHECKING:
    from algos.batch import Batch

Metrics: TypeAlias = Mapping[str, Tensor]
"""Scalars to log. They are summed over micro-batches and ranks, so each must be a sum or already carry its share."""


@dataclass(frozen=True)
class Out:
    """What the policy says about a batch of rows now.

    Attributes:
        logp_BT: [nats], logp_BT[b, t] of token t of row b given the tokens before it, under the temperature used;
            0 where the token is not trained. Differentiable.
        entropy_BT: [nats] of the distribution that token t was drawn from; only when `entropy` is in `needs`.
        value_BK: what the critic expects in front of turn k's first token, 0 where row b has no turn k; only when
            `value` is in `needs`. K is the number of turns of the rows given.
    """

    logp_BT: Tensor
    entropy_BT: Tensor | None = None
    value_BK: Tensor | None = None


@dataclass(frozen=True)
class Algorithm:
    """An algorithm as the trainer sees it.

    Attributes:
        advantages: (batch, carry) -> (adv_BT, carry), or (dict(adv_BT=..., more_BT=...), carry) whose tensors all reach
            `loss` in the batch. It sees the whole step: all trajectories of the policy's learning agents.
        loss: (out, batch) -> (loss, scalars). A plain sum over tokens weighted by `batch.share_BT`, so it is the same
            however the minibatch is split. The batch holds `old_logp_BT`, `adv_BT`, `share_BT`.
        share: what the loss weighs equally, one of `algos.functional.SHARES`.
        share_length: the fixed length [tokens] of share `constant`.
        needs: what the learner fills in: `ref_logp` (batch.ref_logp_BT), `entropy` (out.entropy_BT), `value`
            (out.value_BK), `old_value` (batch.old_value_BK, before the update).
        carry: the first carry; state between steps such as a running baseline, JSON values only, kept in checkpoints.
    """

    advantages: Callable[[Batch, Any], tuple[Tensor | Mapping[str, Tensor], Any]]
    loss: Callable[[Out, Batch], tuple[Tensor, Metrics]]
    share: str
    share_length: int = 0
    needs: tuple[str, ...] = ()
    carry: Any = None


def named(paid: Tensor | Mapping[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    """What `advantages` gave, by name. Raises ValueError where a tensor is missing or not of its axes' size."""
    tensors = {"adv_BT": paid} if isinstance(paid, Tensor) else dict(paid)
    if "adv_BT" not in tensors:
        raise ValueError(f"`advantages` must give adv_BT, but gave {', '.join(tensors) or 'nothing'}")
    B, T = batch.turn_BT.shape
    for name, tensor in tensors.items():
        axes = name.rpartition("_")[2]
        wanted = (B, T) if axes == "BT" else (B,) if axes.startswith("B") else ()
        if tuple(tensor.shape[: len(wanted)]) != wanted or (axes == "BT" and tensor.dim() > 2):
            raise ValueError(
                f"`advantages` gave {name} of shape {tuple(tensor.shape)}; the batch has {B} rows and {T} tokens a row"
            )
    return tensors


def as_kept(carry: Any) -> Any:
    """The carry as a checkpoint gives it back: taken anew after every step, it is the same with and without one.

    Raises ValueError where it is not made of JSON values.
    """
    try:
        return json.loads(json.dumps(carry))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`advantages` gave a carry that no checkpoint can hold ({error}): make it of numbers, texts, lists and "
            "dictionaries, a tensor with its tolist()"
        ) from None
