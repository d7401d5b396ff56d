"""What runs in the engine's own processes, as vLLM's `--worker-extension-cls`: taking weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rema_agents.checksum import Counted, checksum
from rema_agents.weight_files import read
from rema_agents.weight_ipc import Receiver


class Reload:
    """What workers of an engine or server learn to do besides: take weights, and tell the checksum of what arrived."""

    model_runner: Any
    vllm_config: Any
    device: torch.device
    _receiver: Receiver | None = None

    def take_weights(self, folder: str) -> int:
        """Load a folder in place."""
        weights = Counted(lambda: read(folder, self.device))
        self.reload_weights(weights_iterator=weights)  # type: ignore[attr-defined]  # vLLM's worker has it
        self._mend_head()
        return weights.checksum

    def take_adapter(self, name: str, number: int, folder: str) -> int:
        """Load an adapter anew, from peft's files in a folder; the checksum is of these, read once more.

        Raises:
            RuntimeError: vLLM did not take it.
        """
        from vllm.lora.request import LoRARequest

        adapter = LoRARequest(name, number, folder, load_inplace=True)
        if not self.add_lora(adapter):  # type: ignore[attr-defined]  # vLLM's worker has it
            raise RuntimeError(f"vLLM did not take adapter {name} from {folder}")
        return checksum(read(folder, torch.device("cpu")))

    def take_chunk(self, chunk: Mapping[str, Any]) -> int:
        """Load what lies in the buffer now; between vLLM's start of a weight update and `end_chunks`."""
        from vllm.config import set_current_vllm_config

        receiver = self._receiver = self._receiver or Receiver(self.device)
        weights = Counted(lambda: receiver.take(chunk))
        with set_current_vllm_config(self.vllm_config):
            self.model_runner.get_model().load_weights(weights)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the buffer is filled again as soon as this returns
        return weights.checksum

    def end_chunks(self) -> None:
        """End the update that the chunks were part of, whether or not all of them came."""
        if self._receiver is not None:
            self._receiver.close()
        self.finish_weight_update()  # type: ignore[attr-defined]  # vLLM's worker has it
        self._mend_head()

    def _mend_head(self) -> None:
        """On a CPU, a tied lm_head keeps a packed copy of its own, which is made anew."""
        model = self.model_runner.get_model()
        if getattr(model.config, "tie_word_embeddings", False) and hasattr(model, "lm_head"):
            model.lm_head.quant_method.process_weights_after_loading(model.lm_head)
