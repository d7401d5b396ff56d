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


NEEDS = ("ref_logp", "entropy", "value", "old_value")
"""What an algorithm can have the learner fill in; see `Algorithm`."""


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

    def __post_init__(self) -> None:
        if isinstance(self.needs, str) or (unknown := [name for name in self.needs if name not in NEEDS]):
            wrong = repr(self.needs) if isinstance(self.needs, str) else ", ".join(map(str, unknown))
            raise ValueError(f"`needs` names {wrong}; it is a tuple of names among {', '.join(NEEDS)}")


def advantages_of(algorithm: Algorithm, batch: Batch, carry: Any) -> tuple[dict[str, Tensor], Any]:
    """What an algorithm's `advantages` gives, by name, and the next carry. Raises ValueError for anything else."""
    given = algorithm.advantages(batch, carry)
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError(f"`advantages` must return (adv_BT, carry), but returned {_told(given)}")
    return named(given[0], batch), given[1]


def loss_of(algorithm: Algorithm, out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    """What an algorithm's `loss` gives: a number with a gradient, and scalars. Raises ValueError for anything else."""
    given = algorithm.loss(out, batch)
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError(f"`loss` must return (loss, scalars), with {{}} for no scalars, but returned {_told(given)}")
    value, scalars = given
    if not isinstance(value, Tensor) or value.dim() or not value.requires_grad:
        raise ValueError(f"`loss` must give one number with a gradient, computed from out, but gave {_told(value)}")
    if not isinstance(scalars, Mapping):
        raise ValueError(f"`loss` must give its scalars as a mapping from name to number, but gave {_told(scalars)}")
    for name, scalar in scalars.items():
        if not isinstance(name, str) or not isinstance(scalar, (Tensor, int, float)):
            raise ValueError(f"`loss` must give scalars as name and number, but gave {name!r}: {_told(scalar)}")
        if isinstance(scalar, Tensor) and scalar.numel() != 1:
            raise ValueError(f"`loss` must give one number for {name}, but gave {_told(scalar)}")
    return value, {name: scalar.detach() if isinstance(scalar, Tensor) else scalar for name, scalar in scalars.items()}


def _told(given: Any) -> str:
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}{'' if given.requires_grad else ' without a gradient'}"
    return "nothing" if given is None else f"{type(given).__name__} {given!r:.60}"


def named(paid: Tensor | Mapping[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    """What `advantages` gave, by name. Raises ValueError where a tensor is missing or not of its axes' size."""
    if not isinstance(paid, (Tensor, Mapping)):
        raise ValueError(f"`advantages` must give adv_BT, or a mapping from name to tensor, but gave {_told(paid)}")
    tensors = {"adv_BT": paid} if isinstance(paid, Tensor) else dict(paid)
    if "adv_BT" not in tensors:
        raise ValueError(f"`advantages` must give adv_BT, but gave {', '.join(tensors) or 'nothing'}")
    B, T = batch.turn_BT.shape
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"`advantages` must give tensors, but gave {name}: {_told(tensor)}")
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
