"""Named sets of flags. A preset is laid over the defaults; files and flags are laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EMBEDDED: Mapping[str, Any] = {
    "model_name_or_path": "embedded",
    "system_prompts": "embedded",
    "max_rounds": 4,
    "max_completion_length": 10,
    "max_prompt_length": 128,
    "problems_per_step": 16,
    "num_generations": 16,
    "num_minibatches": 2,
    "learning_rate": 5e-4,
    "micro_batch_tokens": 2048,
    "gradient_checkpointing": False,
    "max_steps": 60,
    "eval_steps": 10,
    "save_steps": 20,
}
"""The embedded model on procedural arithmetic: sets model, prompts, problems, batch, learning rate and limits only."""

PRESETS: Mapping[str, Mapping[str, Any]] = {"embedded": EMBEDDED}
