"""Named sets of flags. A preset is laid over the defaults; files and flags are laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EMBEDDED: Mapping[str, Any] = {
    "model_name_or_path": "embedded",
    "system_prompts": "embedded",
    "max_rounds": 4,
    "max_completion_length": 48,
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

REMA_MULTI_TURN: Mapping[str, Any] = {
    "process": "multi_turn",
    "max_rounds": 30,
    "on_cut": "end",
    "unfinished_reward": "zero",
    "max_completion_length": 512,
    "max_prompt_length": 4096,
    "problems_per_step": 128,
    "num_generations": 16,
    "temperature": 1.0,
    "num_minibatches": 4,
    "learning_rate": 1e-6,
    "weight_decay": 1e-2,
    "max_grad_norm": 1.0,
    "zero_advantage": "keep",
    "max_steps": 500,
    "save_steps": 50,
    "eval_steps": 10,
    "eval_temperature": 0.0,
    "ratio": "turn_geometric",
    "share": "turn_in_trajectory",
    "scale_rewards": "group",
    "epsilon": 0.2,
    "epsilon_high": 0.2,
    "dual_clip": 3.0,
    "log_ratio_limit": 3.0,
    "beta": 0.0,
    "entropy_coef": 0.0,
}
"""ReMA's multi-turn training, for `turn_ppo`: arXiv:2503.09501, sections 4.3 and D.2.2, and its released scripts.
Shared weights, both roles updated together; with `--team separate --train alternate:10` as its separate trainer."""

PRESETS: Mapping[str, Mapping[str, Any]] = {"embedded": EMBEDDED, "rema-multi-turn": REMA_MULTI_TURN}
