"""What DeepSpeed is told: made from our flags, with `--deepspeed FILE` laid over; contradictions are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algos.config import LearnerConfig

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
    return made | told | {"zero_optimization": zero}


def read_deepspeed_file(config: LearnerConfig, *, bf16: bool, ranks: int) -> dict[str, Any]:
    """What the file adds to our flags, without `auto` values and without the batch sizes, which follow from tokens."""
    if config.deepspeed is None:
        return {}
    path = Path(config.deepspeed)
    where = f"--deepspeed {path}"
    try:
        told = _without_auto(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from None
    _check_batch_sizes(told, ranks, where)
    for section, flag in (("optimizer", "--optimizer and --learning-rate"), ("scheduler", "--lr-scheduler-type")):
        if told.get(section):
            raise ValueError(f"{where} has a section {section!r}; take it out and use {flag}")
    if told.get("fp16", {}).get("enabled"):
        raise ValueError(f"{where} asks for fp16, whose gradients overflow in RL; use --bf16")
    _same(where, "gradient_clipping", told.get("gradient_clipping"), "--max-grad-norm", config.max_grad_norm)
    _same(where, "bf16", told.get("bf16", {}).get("enabled"), "--bf16", bf16)
    if config.zero_stage:
        _same(where, "stage", told.get("zero_optimization", {}).get("stage"), "--zero-stage", config.zero_stage)
    return {name: value for name, value in told.items() if name not in (*BATCH, "optimizer", "scheduler", "fp16")}


def zero_stage(config: LearnerConfig) -> int:
    """The ZeRO stage that flags and file agree on."""
    told = json.loads(Path(config.deepspeed).read_text()) if config.deepspeed else {}
    stage = told.get("zero_optimization", {}).get("stage", "auto")
    return config.zero_stage if stage == "auto" else int(stage)


def _check_batch_sizes(told: Mapping[str, Any], ranks: int, where: str) -> None:
    """DeepSpeed's own rule, said before it starts: train = micro x accumulation x ranks."""
    if "train_batch_size" not in told:
        return
    train, micro, gas = (int(told.get(name, 1)) for name in BATCH)
    if train != micro * gas * ranks:
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
