"""Adapters of several policies on one vLLM engine, which holds their base once.

Every call on such an engine names an adapter: vLLM's build for CPUs lets one that names none share a batch with others
only to give it the weights of another call's adapter.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from rema_agents.gate import Gate
from rema_agents.types import Completion, SamplingParams
from rema_agents.weight_files import shared_memory_folder

if TYPE_CHECKING:
    from rema_agents.vllm import VLLMSampler

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Those that vLLM makes room for."""


class Adapters:
    """One adapter a policy, as peft's files in shared memory, for an engine to take as often as it needs them.

    Args:
        names: of all policies.
        rank, alpha: of LoRA.

    Attributes:
        checksum: None: no whole weights arrive.
        checksums: name -> of the adapter's file, which the engine's process reads once more after it has taken it (what
            it holds itself is packed otherwise); of none that it has not taken yet.
        whole: it is no whole model that is handed over, so an engine that sleeps has to keep the base.
    """

    whole = False
    checksum = None

    def __init__(self, names: Sequence[str], *, rank: int, alpha: int) -> None:
        self._numbers = {name: number for number, name in enumerate(names, start=1)}
        self._settings: dict[str, Any] = {
            "peft_type": "LORA",
            "r": rank,
            "lora_alpha": alpha,
            "target_modules": "all-linear",
        }
        self._folder = tempfile.mkdtemp(prefix="rema-adapters-", dir=shared_memory_folder())
        self._written: set[str] = set()
        self.checksums: dict[str, int] = {}
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def ready(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._written)

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `vllm.AsyncEngineArgs`."""
        room = next(room for room in RANKS if room >= self._settings["r"])
        return {"enable_lora": True, "max_lora_rank": room, "max_loras": len(self._numbers)}

    def publish(self, name: str, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """An adapter's weights to take from now on, named as in peft's files."""
        from safetensors.torch import save_file

        self.checksums.pop(name, None)
        folder = Path(self._folder, name)
        folder.mkdir(exist_ok=True)
        weights = {key: tensor.detach().contiguous().cpu().clone() for key, tensor in named_tensors}
        save_file(weights, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(self._settings), encoding="utf-8")
        self._written.add(name)

    async def give(self, engine: Any) -> None:
        """Have an engine take them all.

        Raises:
            RuntimeError: the files no longer hold what was published.
            Exception: the engine died.
        """
        for name in sorted(self._written):
            arrived: list[int] = await engine.collective_rpc("take_adapter", args=self._place(name))
            if self.checksums.setdefault(name, arrived[0]) != arrived[0]:
                raise RuntimeError(f"the files of adapter {name} no longer hold what was published last")

    def request(self, name: str) -> Any:
        """What a call says to be answered with an adapter."""
        from vllm.lora.request import LoRARequest

        return LoRARequest(*self._place(name))

    def _place(self, name: str) -> tuple[str, int, str]:
        """Name, number and folder."""
        return name, self._numbers[name], str(Path(self._folder, name))

    def remove(self) -> None:
        """Remove the files."""
        self._finalizer()


class AdapterSampler:
    """A policy's own place at an engine that several share, under its adapter; see `Sampler`."""

    takes_adapters = True

    def __init__(self, engine: VLLMSampler, name: str) -> None:
        self._engine, self._name = engine, name

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """Continue one prompt; see `Sampler`."""
        return await self._engine.sample(prompt_ids, params, dialogue=dialogue, gate=gate, adapter=self._name)

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take the adapter's new weights, named as in peft's files; later completions carry `version`."""
        self._engine.update_adapter(self._name, named_tensors, version)

    def checksum(self) -> int | None:
        """As the engine's, of the adapter's weights."""
        return self._engine.adapter_checksum(self._name)

    def sleep(self) -> None:
        """As the engine's."""
        self._engine.sleep()

    def close(self) -> None:
        """Stop the engine, for all who share it."""
        self._engine.close()
