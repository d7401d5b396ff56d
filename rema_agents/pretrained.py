"""A model from its folder: with every weight that its configuration asks for, or not at all.

Where a tensor is missing or of another shape, transformers puts random numbers, other ones each time, and says so in a
table alone: sampler, learner and reference would be three policies.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed
from safetensors import SafetensorError
from torch import Tensor, nn

from rema_agents.weight_files import read_files

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_INDEX = "model.safetensors.index.json"
_NAMED = 3
_UNREADABLE = (OSError, RuntimeError, EOFError, KeyError, json.JSONDecodeError, SafetensorError, pickle.UnpicklingError)
_OF_THE_MACHINE = (torch.OutOfMemoryError, torch.AcceleratorError, torch.distributed.DistError)
_GLOOS = re.compile("gloo|by peer|Broken pipe")
"""Where ranks read together and one has died, the others are told so, by gloo in a RuntimeError."""
_COMPARED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Types of weights that may be infinite or no number, and that torch can compare."""


def load_causal_lm(
    folder: str | Path, *, whole: Callable[[nn.Parameter], Any] = nullcontext, **settings: Any
) -> PreTrainedModel:
    """A causal language model. Tensors that it has no place for, such as a classifier's head, are left out.

    Args:
        folder: a Hugging Face model folder, or a hub name.
        whole: a context in which a parameter is whole, where it is parted while it is read.
        settings: further arguments of transformers' `from_pretrained`.

    Raises:
        ValueError: its files cannot be read, or they lack a tensor, or hold one of another shape or with numbers that
            are not finite.
    """
    from transformers import AutoModelForCausalLM

    told: dict[str, Any] = {"output_loading_info": True, "ignore_mismatched_sizes": True, **settings}
    with _readable(folder), _without_its_table():
        model, found = AutoModelForCausalLM.from_pretrained(folder, **told)
    _refuse_unlike(folder, found)
    for name, parameter in model.named_parameters():
        with whole(parameter):
            _refuse_not_finite(folder, name, parameter)
    return model


def check_folder(folder: str | Path) -> None:
    """As `load_causal_lm`, but keeps nothing: for an engine that reads the folder by itself. Raises what it raises.

    What tensors a folder needs that is quantised, or unknown to transformers' causal models, the engine alone knows.
    Numbers are looked at in safetensors alone.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    config = AutoConfig.from_pretrained(folder)
    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and not hasattr(config, "quantization_config"):
        load_causal_lm(folder, device_map="meta")
    with _readable(folder):
        for name, tensor in read_files(_weight_files(folder), torch.device("cpu")):
            _refuse_not_finite(folder, name, tensor)


def _weight_files(folder: str | Path) -> list[Path]:
    """The safetensors that a model is read from: a set on the hub may hold the same weights in others once more."""
    from huggingface_hub import snapshot_download

    def found(*names: str) -> list[Path]:
        local = folder if Path(folder).is_dir() else snapshot_download(str(folder), allow_patterns=list(names))
        return sorted(path for name in names for path in Path(local).glob(name))

    index = found(_INDEX)
    if not index:
        return found("model*.safetensors")
    return found(*sorted(set(json.loads(index[0].read_text(encoding="utf-8"))["weight_map"].values())))


@contextmanager
def _readable(folder: str | Path) -> Iterator[None]:
    """Within: files that cannot be read are a ValueError that names their folder."""
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, _OF_THE_MACHINE) or (isinstance(error, RuntimeError) and _GLOOS.search(str(error))):
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{folder}: its weights cannot be read: {said}") from error


def _refuse_not_finite(folder: str | Path, name: str, tensor: Tensor) -> None:
    if tensor.dtype not in _COMPARED or tensor.is_meta or not tensor.numel():
        return
    least, most = torch.aminmax(tensor.detach())  # read once, and nothing made; one NaN makes both NaN
    if not (torch.isfinite(least) and torch.isfinite(most)):
        raise ValueError(f"{folder} holds damaged weights: numbers in {name} are not finite")


def _refuse_unlike(folder: str | Path, found: Mapping[str, Any]) -> None:
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"{folder} lacks weights that its config.json asks for: {_some(missing)}")
    if unlike := sorted((name, list(held), list(asked)) for name, held, asked in found["mismatched_keys"]):
        said = [f"{name} is {held} instead of {asked}" for name, held, asked in unlike]
        raise ValueError(f"{folder} holds weights of other shapes than its config.json asks for: {_some(said)}")
    if spare := sorted(found["unexpected_keys"]):
        warnings.warn(f"{folder}: weights that the model has no place for are left out: {_some(spare)}", stacklevel=3)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f", and {rest} more" if rest > 0 else "")


@contextmanager
def _without_its_table() -> Iterator[None]:
    """Within: transformers does not print its table of what does not fit, which is said in one line instead."""

    def no_table(record: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in record.getMessage()

    log = logging.getLogger("transformers.modeling_utils")
    log.addFilter(no_table)
    try:
        yield
    finally:
        log.removeFilter(no_table)
