"""How a vLLM engine is set up: what training needs of it, and what its build for CPUs needs besides."""

from __future__ import annotations

import os
from typing import Any

_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn",  # a fork would copy the threads of torch half-way
}

_ALWAYS = {
    "enable_prefix_caching": True,
    "logprobs_mode": "processed_logprobs",  # after temperature; the default is before
    "generation_config": "vllm",
    "use_tqdm_on_load": False,
}

_CPU_ENGINE = {"enforce_eager": True, "block_size": 32}
"""Short dialogues fill no block of the default 128 tokens, and what fills no block is not cached."""

WAYS = ("auto", "ipc", "files")
"""How an engine takes weights: through a buffer that it shares with the learner, or from files in shared memory."""


def engine_settings(*, on_cpu: bool, by_ipc: bool, gpu_memory_utilization: float) -> dict[str, Any]:
    """Arguments of `vllm.AsyncEngineArgs` besides those of model and length."""
    on_gpu = {"enable_sleep_mode": True, "gpu_memory_utilization": gpu_memory_utilization}
    transfer = {"weight_transfer_config": {"backend": "ipc"}} if by_ipc else {}
    return {**_ALWAYS, **(_CPU_ENGINE if on_cpu else on_gpu), **transfer}


def set_environment() -> None:
    """What vLLM reads from the environment; values set from outside stay."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def goes_by_ipc(way: str, *, on_cpu: bool, tensor_parallel_size: int) -> bool:
    """Whether weights go through a shared buffer: by default on a GPU that holds learner and engine alike.

    Raises:
        ValueError: an unknown way, or one that needs learner and engine on one GPU where there are several.
    """
    if way not in WAYS:
        raise ValueError(f"weights go by {', '.join(WAYS)}, got {way!r}")
    if way == "ipc" and tensor_parallel_size > 1:
        raise ValueError(f"weights by ipc are for an engine on one GPU, not on {tensor_parallel_size}: use files")
    return way == "ipc" or (way == "auto" and not on_cpu and tensor_parallel_size == 1)
