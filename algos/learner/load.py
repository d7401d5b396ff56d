"""A model is read into what DeepSpeed will learn with: whole, or parted among the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from algos.config import LearnerConfig
from algos.scoring import Precision, load_model


def load(folder: str, config: LearnerConfig, precision: Precision, told: Mapping[str, Any]) -> nn.Module:
    """The model; under ZeRO-3 it is parted while it is read, so that no rank ever holds it whole.

    Args:
        told: what DeepSpeed is told.

    Raises:
        ValueError: the folder's weights are not whole.
    """
    recompute = config.gradient_checkpointing
    if told["zero_optimization"]["stage"] == 3:
        import deepspeed
        from transformers.integrations import HfDeepSpeedConfig

        parted = HfDeepSpeedConfig(dict(told))  # in force for as long as it is referred to
        whole = deepspeed.zero.GatheredParameters
        model = load_model(folder, precision, gradient_checkpointing=recompute, whole=lambda part: whole([part]))
        del parted
        if precision.bf16:
            make_buffers_anew(model)
    else:
        model = load_model(folder, precision, gradient_checkpointing=recompute)
    return model.train(recompute)  # recomputation is armed by training mode; dropout is off


def make_buffers_anew(model: Any) -> None:
    """Give a model that was parted while it was read the buffers that no file holds, as they are elsewhere.

    There every tensor is made in the weights' 16 bits, and rotary frequencies in 16 bits are wrong by a radian after
    some thousand positions.
    """
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM

    with init_empty_weights(include_buffers=False):
        fresh = AutoModelForCausalLM.from_config(model.config)
    for name, module in fresh.named_modules():
        for buffer in module._non_persistent_buffers_set:
            old = model.get_submodule(name).get_buffer(buffer)
            setattr(model.get_submodule(name), buffer, module.get_buffer(buffer).to(old.device))
