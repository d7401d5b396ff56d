"""LoRA: one frozen base, one adapter a policy. The reference policy is the base with its adapters off.

    W' = W + (alpha / rank) B A        A: rank x in, B: out x rank, B starts at 0; every linear layer but the head

Source: Hu et al., arXiv:2106.09685.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class Base:
    """A model's frozen weights: on their device, or, while others need the room, in host memory alone.

    The copy in host memory is made once; as the weights never change, resting costs nothing after that.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._kept: list[Tensor] = []
        self._device = self._parameters[0].device
        self._rests = False

    def rest(self) -> None:
        """Leave the device."""
        self._kept = self._kept or [p.data.to("cpu", copy=True) for p in self._parameters]
        for parameter, kept in zip(self._parameters, self._kept, strict=True):
            parameter.data = kept
        self._rests = True

    def rise(self) -> None:
        """Come back to the device."""
        if self._rests:
            for parameter, kept in zip(self._parameters, self._kept, strict=True):
                parameter.data = kept.to(self._device, copy=True)
        self._rests = False


@dataclass(frozen=True)
class Adapter:
    """One policy's adapter on a base that others may share.

    Attributes:
        model: the peft model.
        name: the adapter's, which is the policy's.
        base: what is under all its adapters.
    """

    model: Any
    name: str
    base: Base

    @classmethod
    def on(cls, under: nn.Module | Adapter, name: str, *, rank: int, alpha: int, start_from: str) -> Adapter:
        """A fresh adapter on a model, or next to those on another adapter's base.

        Args:
            start_from: the base's folder or hub name, which the adapter's own folder will name.

        Raises:
            ValueError: the rank is above that of every layer.
        """
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        config.base_model_name_or_path = start_from
        if isinstance(under, Adapter):
            under.base.rise()  # a new adapter lies where its base does
            under.model.add_adapter(name, config)
            made = cls(under.model, name, under.base)
        else:
            _refuse_above_all(rank, under, start_from)
            base = Base(under)
            made = cls(get_peft_model(under, config, adapter_name=name), name, base)
        made.wear()
        return made

    def wear(self) -> None:
        """Make this adapter the one that the model computes with, and whose weights have gradients."""
        self.model.set_adapter(self.name)

    def off(self) -> Any:
        """A context in which the model is its base."""
        return self.model.disable_adapter()

    def parameters(self) -> list[nn.Parameter]:
        """Those of this adapter."""
        return [parameter for name, parameter in self.model.named_parameters() if self._owns(name)]

    def _owns(self, name: str) -> bool:
        """Whether a parameter is this adapter's; its name may be that of a module too."""
        return any(f".{matrix}.{self.name}." in name for matrix in ("lora_A", "lora_B"))

    def tensors(self, whole: Callable[[nn.Parameter], Any]) -> Iterator[tuple[str, Tensor]]:
        """Its own weights alone, named as in peft's files; `whole` as in `merged`."""
        for name, parameter in self.model.named_parameters():
            if self._owns(name):
                with whole(parameter):
                    yield name.removesuffix(f".{self.name}.weight") + ".weight", parameter.detach()

    def merged(self, whole: Callable[[nn.Parameter], Any]) -> Iterator[tuple[str, Tensor]]:
        """Every weight of the base by its Hugging Face name, with what the adapter adds to it; one at a time.

        Args:
            whole: a context in which a parameter is whole.
        """
        base = self.model.get_base_model()
        layers = {name: module for name, module in base.named_modules() if hasattr(module, "get_delta_weight")}
        for name, parameter in base.named_parameters():
            if ".lora_" in name:
                continue
            plain = name.replace(".base_layer.", ".")
            layer = layers.get(plain.rpartition(".")[0]) if plain != name and plain.endswith(".weight") else None
            with whole(parameter), torch.no_grad():
                if layer is None:
                    yield plain, parameter.detach()
                else:
                    yield plain, parameter + layer.get_delta_weight(self.name).to(parameter)

    def save(self, folder: Path, weights: Mapping[str, Tensor]) -> None:
        """Write the adapter alone, as peft reads it.

        Args:
            weights: all that `tensors` gives; ZeRO-3 leaves none of them whole in the model itself.
        """
        named = {name.removesuffix(".weight") + f".{self.name}.weight": weight for name, weight in weights.items()}
        self.model.save_pretrained(str(folder), selected_adapters=[self.name], state_dict=named)
        own = folder / self.name  # peft keeps a named adapter in a folder of its own
        for path in own.iterdir():
            path.rename(folder / path.name)
        own.rmdir()
        config = folder / "adapter_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()), indent=2) + "\n")


def _refuse_above_all(rank: int, model: Any, start_from: str) -> None:
    head = model.get_output_embeddings()
    linear = (m for m in model.modules() if isinstance(m, nn.Linear) and m is not head)
    highest = max((min(m.in_features, m.out_features) for m in linear), default=rank)
    if rank > highest:
        raise ValueError(f"--lora-rank {rank}: no layer of {start_from} has a rank above {highest}; 8 to 64 is usual")
