"""Log-probabilities of tokens from hidden states, through full logits or in chunks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.learn.peak import forget_peak, peak


@dataclass(frozen=True)
class LogpWork:
    """The size of the comparison."""

    tokens: int = 1_024
    hidden: int = 896
    vocabulary: int = 151_936


def logp(kind: str, work: LogpWork, repeats: int = 3) -> dict[str, float]:
    """Forward and backward of log-probabilities, `full` logits or `chunked`: least CPU seconds, memory above before."""
    import torch

    from algos.head import token_logps

    torch.manual_seed(0)
    weight = torch.randn(work.vocabulary, work.hidden) * 0.02
    token = torch.randint(0, work.vocabulary, (work.tokens,))
    upstream = torch.randn(work.tokens)
    hidden = torch.randn(work.tokens, work.hidden, requires_grad=True)

    def once() -> None:
        if kind == "full":
            logps = torch.log_softmax(hidden @ weight.T, -1).gather(1, token[:, None])[:, 0]
        else:
            logps, _ = token_logps(hidden, weight, None, token)
        logps.backward(upstream)

    (torch.randn(64, 64) @ torch.randn(64, 64)).sum()
    before, seconds = forget_peak(), []
    for _ in range(repeats):
        start = time.process_time()
        once()
        seconds.append(time.process_time() - start)
    return {"seconds": min(seconds), "memory": peak() - before}
