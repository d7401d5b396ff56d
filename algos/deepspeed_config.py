"""What DeepSpeed is told: made from our flags, with `--deepspeed FILE` laid over; contradictions are refused."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algos.config import LearnerConfig

OBJECTS = ("zero_optimization", "bf16", "fp16", "optimizer", "scheduler")
INSTEAD = {
    "optimizer": "use --optimizer and --learning-rate",
    "scheduler": "use --lr-scheduler-type",
    "managed_gradient_accumulation": "leave it to the learner, which knows when a minibatch is over",
    "tensor_parallel": "part the model with --zero-stage 3",
    "data_types": "leave it to the learner, which accumulates gradients in float32",
}
"""What a file may not say, and what to do instead."""
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def deepspeed_config(config: LearnerConfig, *, bf16: bool, ranks: int) -> dict[str, Any]:
    """The whole configuration.

    The caller owns the accumulation boundary: `engine.step()` is one, however many micro-batches came before.

    Args:
        config: ours, with the file's name.
        bf16: whether the model computes in bfloat16.
        ranks: how many learn together.

    Raises:
        ValueError: the file is missing or no JSON, or contradicts the flags or itself.
    """
    told = read_deepspeed_file(config, bf16=bf16, ranks=ranks)
    zero = {"stage": config.zero_stage, "overlap_comm": False} | told.pop("zero_optimization", {})
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": config.max_grad_norm,
        "bf16": {"enabled": bf16},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }
    if bf16 and zero["stage"] >= 2:  # below, DeepSpeed knows no such sum (0), or none whose states can rest (1)
        made["data_types"] = {"grad_accum_dtype": "fp32"}
    return made | told | {"zero_optimization": zero}


def read_deepspeed_file(config: LearnerConfig, *, bf16: bool, ranks: int) -> dict[str, Any]:
    """What the file adds to our flags, without `auto` values and without the batch sizes, which follow from tokens.

    Raises ValueError as `deepspeed_config` does.
    """
    if config.deepspeed is None:
        return {}
    told, where = _read(config.deepspeed), f"--deepspeed {config.deepspeed}"
    _check_batch_sizes(told, ranks, where)
    for section, instead in INSTEAD.items():
        if told.get(section):
            raise ValueError(f"{where} has {section!r}; take it out and {instead}")
    if told.get("fp16", {}).get("enabled"):
        raise ValueError(f"{where} asks for fp16, whose gradients overflow in RL; use --bf16")
    if told.get("compute_grad_norm") is False:
        raise ValueError(f"{where} turns compute_grad_norm off; take it out: the norm is logged at every update")
    _same(where, "gradient_clipping", told.get("gradient_clipping"), "--max-grad-norm", config.max_grad_norm)
    _same(where, "bf16", told.get("bf16", {}).get("enabled"), "--bf16", bf16)
    if config.zero_stage:
        _same(where, "stage", told.get("zero_optimization", {}).get("stage"), "--zero-stage", config.zero_stage)
    _check_offload(told.get("zero_optimization", {}), zero_stage(config), where)
    return {name: value for name, value in told.items() if name not in (*BATCH, *INSTEAD, "fp16")}


def zero_stage(config: LearnerConfig) -> int:
    """The ZeRO stage that flags and file agree on."""
    told = _read(config.deepspeed) if config.deepspeed else {}
    return int(told.get("zero_optimization", {}).get("stage", config.zero_stage))


def offloads(zero: Mapping[str, Any]) -> bool:
    """Whether optimizer states or weights have their place off the GPU for good, by the section on ZeRO."""
    parts = (zero.get(part) or {} for part in ("offload_optimizer", "offload_param"))
    return any(part.get("device", "none") != "none" for part in parts)


def _read(file: str) -> dict[str, Any]:
    """The file without `auto` values. Raises ValueError for one that has no sense as such, whatever the flags are."""
    where = f"--deepspeed {file}"
    try:
        told = _without_auto(json.loads(Path(file).read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{where} is not JSON: {error}") from None
    if not isinstance(told, dict):
        raise ValueError(f"{where} holds no JSON object")
    for section in OBJECTS:
        if not isinstance(told.get(section, {}), dict):
            raise ValueError(f"{where}: {section} must be an object, got {json.dumps(told[section])}")
    stage = told.get("zero_optimization", {}).get("stage", 0)
    if type(stage) is not int or not 0 <= stage <= 3:
        raise ValueError(f"{where}: the stage of zero_optimization is 0, 1, 2 or 3, got {json.dumps(stage)}")
    for name in told:
        meant = difflib.get_close_matches(name, (*OBJECTS, *BATCH, "gradient_clipping"), 1, 0.85)
        if meant and meant[0] != name:
            raise ValueError(f"{where}: there is no {name!r}; {meant[0]!r} is what DeepSpeed knows")
    return told


def _check_offload(zero: Mapping[str, Any], stage: int, where: str) -> None:
    """DeepSpeed passes silently over an offload that the stage does not have."""
    for part, least in (("offload_optimizer", 1), ("offload_param", 3)):
        told = zero.get(part) or {}
        if told.get("device", "none") == "none":
            continue
        if stage < least:
            raise ValueError(f"{where}: {part} needs ZeRO stage {least} or higher, got {stage}")
        if told["device"] == "nvme" and not told.get("nvme_path"):
            raise ValueError(f"{where}: {part} on nvme needs nvme_path, a folder there")


def _check_batch_sizes(told: Mapping[str, Any], ranks: int, where: str) -> None:
    """DeepSpeed's own rule, said before it starts: train = micro x accumulation x ranks."""
    for name in BATCH:
        if type(told.get(name, 1)) is not int:
            raise ValueError(f"{where}: {name} is a number, got {json.dumps(told[name])}")
    train, micro, gas = (told.get(name, 1) for name in BATCH)
    if "train_batch_size" in told and train != micro * gas * ranks:
        raise ValueError(
            f"{where}: train_batch_size {train} is not train_micro_batch_size_per_gpu {micro} x "
            f"gradient_accumulation_steps {gas} x {ranks} rank{'s' * (ranks != 1)} = {micro * gas * ranks}; take the "
            "three out: batches follow from --problems-per-step, --num-minibatches and --micro-batch-tokens"
        )


def _same(where: str, name: str, told: Any, flag: str, ours: Any) -> None:
    if told is not None and told != ours:
        raise ValueError(f"{where} sets {name} to {told}, but {flag} is {ours}; give it in one place")


def _without_auto(told: Any) -> Any:
    """Without the values that Hugging Face's own files leave to the trainer."""
    if not isinstance(told, dict):
        return told
    kept = {name: _without_auto(value) for name, value in told.items() if value != "auto"}
    return {name: value for name, value in kept.items() if value != {} or told[name] == {}}
