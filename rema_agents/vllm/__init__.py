"""A vLLM engine in a child process that serves many dialogues at once: the only place that touches vLLM.

The engine batches waiting calls by itself, keeps prefixes across the turns of a dialogue, and takes new weights in
place: on a GPU through a buffer that it shares with the learner, else from files in shared memory. When it dies it is
started anew with the current weights, and the calls it took with it are made again.

vLLM is seeded as a whole, not call by call: how calls share its batches depends on the clock, and so do the ids.
"""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rema_agents.gate import Gate
from rema_agents.loop_thread import LoopThread
from rema_agents.model_length import length_of
from rema_agents.pretrained import check_folder
from rema_agents.types import Completion, SamplingParams
from rema_agents.vllm.adapters import Adapters
from rema_agents.vllm.engine import put_down, start_engine, unless_dead, vllm_params
from rema_agents.vllm.handover import Handover
from rema_agents.vllm.settings import engine_settings, goes_by_ipc
from rema_agents.vllm.worker import Reload
from rema_env.transcript import Finish

__all__ = ["Reload", "VLLMSampler"]

_TO_HOST, _GONE = 1, 2
"""Levels of sleep: weights wait in host memory, or go, where there is something to take them from."""

_DEATHS_IN_A_ROW = 3


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
        weights: how new ones arrive. `ipc`: through a buffer that learner and engine share on one GPU, a part of the
            model at a time; `files`: in shared memory; `auto`: `ipc` on one GPU, else `files`. Where `ipc` fails, or
            the weights can be had only once, they go through files.
        adapters: of policies that share this engine, each through an `AdapterSampler`; None: it takes whole weights.
        seed: of the engine.
        engine: further arguments of `vllm.AsyncEngineArgs`.

    Attributes:
        prompt_tokens, cached_tokens: tokens of all prompts so far, and how many of them lay in the prefix cache.

    Raises:
        ValueError: vLLM is not installed, the model takes fewer tokens than `max_model_len`, or the folder's weights
            are not whole; see `check_folder`.
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
        weights: str = "auto",
        adapters: Adapters | None = None,
        seed: int = 0,
        **engine: Any,
    ) -> None:
        on_cpu = not torch.cuda.is_available()
        dtype = dtype or (torch.float32 if on_cpu else torch.bfloat16)
        self._gpu = gpu
        by_ipc = goes_by_ipc(weights, on_cpu=on_cpu, tensor_parallel_size=tensor_parallel_size)
        self._arguments = {
            "model": str(folder),
            "dtype": str(dtype).removeprefix("torch."),
            "max_model_len": length_of(folder, max_model_len),
            "max_num_seqs": max_num_seqs,
            "tensor_parallel_size": tensor_parallel_size,
            "seed": seed,
            "worker_extension_cls": f"{__name__}.{Reload.__name__}",
            **engine_settings(on_cpu=on_cpu, by_ipc=by_ipc, gpu_memory_utilization=gpu_memory_utilization),
            **(adapters.settings if adapters else {}),
            **engine,
        }
        check_folder(folder)  # the engine's own process could say less of it, and takes numbers that are not finite
        self._weights: Any = adapters or Handover(by_ipc=by_ipc, gpu=None if on_cpu else gpu or 0)
        self._adapters = adapters
        self._weight_version = 0
        self._adapter_versions: dict[str, int] = {}
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
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        dialogue: int,
        gate: Gate,
        adapter: str | None = None,
    ) -> Completion:
        """Continue one prompt, under an adapter where there are any; see `Sampler`.

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
        return await self._loop.wait(self._sample(list(prompt_ids), params, dialogue, adapter))

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take new weights in place and forget all keys and values of the old; later completions carry `version`."""
        self._weights.publish(named_tensors)
        self._weight_version = version
        self._loop.run(self._update())

    def update_adapter(self, name: str, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """As `update_weights`, for the calls under one adapter."""
        assert self._adapters is not None
        self._adapters.publish(name, named_tensors)
        self._adapter_versions[name] = version
        self._loop.run(self._update())

    def checksum(self) -> int | None:
        """Of the weights that the engine took last, as they arrived; None where it never took any."""
        return self._weights.checksum

    def adapter_checksum(self, name: str) -> int | None:
        """As `checksum`, of an adapter's weights."""
        assert self._adapters is not None
        return self._adapters.checksums.get(name)

    def sleep(self) -> None:
        """Give the GPU's memory back until the next weights or the next call; nothing to do on a CPU."""
        if self._arguments.get("enable_sleep_mode") and not self._asleep:
            self._loop.run(self._put_to_sleep())

    def close(self) -> None:
        """Stop the engine and remove its files; a second time, nothing."""
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
        if self._weights.ready:
            await self._take_weights()

    def _new_engine(self) -> Any:
        return start_engine(self._arguments, self._gpu)

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        await put_down(engine)

    async def _sample(
        self, prompt_ids: list[int], params: SamplingParams, dialogue: int, adapter: str | None
    ) -> Completion:
        from vllm.v1.engine.exceptions import EngineDeadError

        while True:
            engine = self._engine
            try:
                if self._asleep:
                    await self._wake()
                return await self._generate(engine, prompt_ids, params, dialogue, adapter)
            except EngineDeadError:
                await self._restart(engine)

    async def _generate(
        self, engine: Any, prompt_ids: list[int], params: SamplingParams, dialogue: int, adapter: str | None
    ) -> Completion:
        version, under = self._weight_version, {}
        if self._adapters and adapter:
            version, under = self._adapter_versions[adapter], {"lora_request": self._adapters.request(adapter)}
        request = f"dialogue-{dialogue}-{next(self._numbers)}"
        answers = engine.generate({"prompt_token_ids": prompt_ids}, vllm_params(params), request, **under)
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
        from vllm.v1.engine.exceptions import EngineDeadError

        async with self._lock:
            while self._engine is dead:
                if self._deaths == _DEATHS_IN_A_ROW:
                    raise RuntimeError(f"the vLLM engine died {self._deaths} times without answering a call in between")
                self._deaths += 1
                warnings.warn(
                    f"the vLLM engine died and is started anew with weights {self._weight_version}; the calls it took "
                    "with it are made again",
                    stacklevel=2,
                )
                await put_down(dead)
                try:
                    await self._start()
                except EngineDeadError:
                    dead = self._engine

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
            await self._told("wake_up", tags=["weights"])
        await unless_dead(self._engine, self._weights.give(self._engine))
        if self._asleep:
            await self._told("wake_up", tags=["kv_cache"])
            self._asleep = False
        await self._told("reset_prefix_cache")

    async def _told(self, what: str, **how: Any) -> None:
        await unless_dead(self._engine, getattr(self._engine, what)(**how))

    async def _put_to_sleep(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        with suppress(EngineDeadError):  # the next call finds it dead
            await self._told("sleep", level=_GONE if self._weights.ready and self._weights.whole else _TO_HOST)
            self._asleep = True

    async def _wake(self) -> None:
        """Wake up for a call, with the weights written last, or else with those that it started with."""
        async with self._lock:
            if not self._asleep:
                return
            if self._weights.ready:
                await self._take_weights()
            else:
                await self._told("wake_up")
                self._asleep = False
