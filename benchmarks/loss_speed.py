"""How fast the turn-ratio loss is, against the obvious way to write it.

    python -m benchmarks.loss_speed

Forward and backward of `algos.turn_ppo`'s loss at 32 rows x 4,608 tokens x 30 turns, with one pass over the tokens for
all turns, against a product of log-ratios with a (rows, tokens, turns) mask, as reference implementations have it. Both
give the same loss and gradient. They take turns in rounds; time is the least processor time of a call, since whatever
else the machine does only adds to it; memory is the peak of what a call allocates beyond its inputs.

The last line is a JSON object: time_ratio (theirs over ours), memory_ratio (ours over theirs), and the raw figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from algos.algorithm import Out
from algos.batch import Batch
from algos.functional import token_shares
from algos.turn_ppo import TurnPPOConfig, loss

ROUNDS = 5


def batch_of_turns(rows: int, tokens: int, turns: int) -> Batch:
    """Rows of equally long turns; the first half of each turn is what was said to the agent and is not trained."""
    generator = torch.Generator().manual_seed(0)
    place_T = torch.arange(tokens)
    length = tokens / turns
    turn_T = (place_T / length).long().clamp(max=turns - 1)
    turn_BT = torch.where(place_T % length < length / 2, -1, turn_T).expand(rows, tokens).contiguous()
    number_B = torch.arange(rows)
    batch = Batch(
        ids_BT=torch.zeros(rows, tokens, dtype=torch.int64),
        turn_BT=turn_BT,
        sampled_logp_BT=torch.zeros(rows, tokens),
        length_B=torch.full((rows,), tokens),
        trajectory_B=number_B,
        reward_S=torch.zeros(rows),
        group_S=number_B,
        agent_S=torch.zeros(rows, dtype=torch.int64),
        episode_S=number_B,
        agents=("meta_0",),
    )
    adv_BT = torch.randn(rows, 1, generator=generator).expand(rows, tokens).contiguous()
    share_BT = token_shares(turn_BT, number_B, "turn_in_trajectory").float()
    return batch.with_tensors(
        old_logp_BT=-torch.rand(rows, tokens, generator=generator), adv_BT=adv_BT, share_BT=share_BT
    )


def broadcast_loss(logp_BT: Tensor, batch: Batch, turns: int) -> Tensor:
    """The same loss, turns told apart by a mask of shape (rows, tokens, turns)."""
    mask_BTK = (batch.turn_BT[:, :, None] == torch.arange(turns)).to(logp_BT.dtype)
    count_BK = mask_BTK.sum(1)
    ratio_BK = torch.exp(((logp_BT - batch.old_logp_BT)[:, :, None] * mask_BTK).sum(1) / count_BK)
    adv_BK = (batch.adv_BT[:, :, None] * mask_BTK).sum(1) / count_BK
    return -torch.minimum(ratio_BK * adv_BK, ratio_BK.clamp(0.8, 1.2) * adv_BK).mean()


Call = Callable[[], Tensor]


def seconds_of(calls: Sequence[Call], repeats: int) -> list[float]:
    """The least processor seconds of each call: they take turns, `repeats` times in a row, for ROUNDS rounds."""
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for n, call in enumerate(calls):
            call()  # caches and heap are its own from here on
            for _ in range(repeats):
                start = time.process_time()
                call()
                least[n] = min(least[n], time.process_time() - start)
    return least


def bytes_of(call: Call) -> float:
    """The most memory that a call allocated at once, in bytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as traced:
        call()
    return peak_bytes(traced)


def peak_bytes(traced: profile) -> float:
    """The most memory that was allocated at once during a trace, in bytes."""
    assert traced.profiler is not None
    results: Any = traced.profiler.kineto_results
    events = [e for e in results.events() if e.name() == "[memory]"]
    now = highest = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        highest = max(highest, now)
    return float(highest)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=4608)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=10)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    batch = batch_of_turns(args.rows, args.tokens, args.turns)
    generator = torch.Generator().manual_seed(1)
    moved_BT = batch.old_logp_BT + 0.1 * torch.randn(batch.old_logp_BT.shape, generator=generator)
    logp_BT = moved_BT.requires_grad_()
    config = TurnPPOConfig()

    def ours() -> Tensor:
        return torch.autograd.grad(loss(Out(logp_BT), batch, config=config)[0], logp_BT)[0]

    def theirs() -> Tensor:
        return torch.autograd.grad(broadcast_loss(logp_BT, batch, args.turns), logp_BT)[0]

    seconds, bytes_ = seconds_of((ours, theirs), args.repeats), (bytes_of(ours), bytes_of(theirs))
    figures = {
        "time_ratio": seconds[1] / seconds[0],
        "memory_ratio": bytes_[0] / bytes_[1],
        "seconds": seconds[0],
        "seconds_broadcast": seconds[1],
        "megabytes": bytes_[0] / 1e6,
        "megabytes_broadcast": bytes_[1] / 1e6,
        "gradient_distance": float((ours() - theirs()).norm() / theirs().norm()),
    }
    print(f"{args.rows} rows x {args.tokens} tokens x {args.turns} turns, forward and backward, one thread")
    print(json.dumps({name: float(f"{value:.4g}") for name, value in figures.items()}))


if __name__ == "__main__":
    main()
