"""What a run is told: groups of flags, each a frozen dataclass whose fields are named as their flags.

The defaults are those that a 7B run needs; `algos.presets` holds others by name, and `algos.command_line` lays a
command line, a file and a preset over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tyro.conf import OmitArgPrefixes as Flat

from algos.flag import JsonObject, at_least
from algos.play_flags import EnvConfig, LimitsConfig, ModelConfig, SamplingConfig

__all__ = [
    "CommandConfig",
    "CommonConfig",
    "EnvConfig",
    "EvalConfig",
    "LearnerConfig",
    "LimitsConfig",
    "ModelConfig",
    "RunConfig",
    "SamplingConfig",
    "TrainConfig",
]


@dataclass(frozen=True)
class LearnerConfig:
    """How weights change."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or plain stochastic gradient descent, which keeps no state."""
    learning_rate: float = 1e-6
    """The optimizer's learning rate."""
    learning_rates: JsonObject = field(default_factory=dict)
    """With separate weights: a role's own learning rate, as JSON, e.g. '{"meta": 5e-7}'."""
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = "constant"
    """After the warm-up: constant, or falling, to reach 0 after the last update."""
    warmup_steps: int = 0
    """Updates over which the learning rate rises from 0."""
    adam_beta1: float = 0.9
    """AdamW's first beta."""
    adam_beta2: float = 0.999
    """AdamW's second beta."""
    weight_decay: float = 0.0
    """AdamW's weight decay."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm; 0 turns clipping off."""
    num_minibatches: int = 1
    """Optimizer steps in one pass over a step's trajectories, over all ranks."""
    num_iterations: int = 1
    """Passes over a step's trajectories."""
    micro_batch_tokens: int = 16384
    """Rows times longest row of one forward and backward, on a rank."""
    zero_advantage: Literal["drop", "keep"] = "drop"
    """Trajectories whose advantage is exactly 0 (groups that agree): left out of the minibatches, so that neither a KL
    nor an entropy term pulls there either; or kept, in shares and in those terms."""
    importance_correction: Literal["auto", "on", "off"] = "auto"
    """Weigh tokens by min(exp(old_logp - sampled_logp), 2). auto: on, but for the transformers sampler."""
    gradient_checkpointing: bool = True
    """Recompute activations in the backward pass."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed ZeRO stage."""
    deepspeed: str | None = None
    """A DeepSpeed configuration (JSON file) that is laid over the one made from these flags."""
    offload_while_sampling: bool = True
    """On GPUs, with ZeRO 1 to 3: optimizer states and master weights wait in host memory while dialogues are played."""

    def __post_init__(self) -> None:
        for name in ("num_minibatches", "num_iterations", "micro_batch_tokens"):
            at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "max_grad_norm", "weight_decay", "warmup_steps"):
            at_least(name, getattr(self, name), 0)
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be from 0 to below 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class EvalConfig:
    """How well the team does, before, during and after training."""

    eval_datasets: tuple[str, ...] = ()
    """Files, hub names or families of problems, of which the held-out part. None named: the held-out part of a family
    that is trained on."""
    eval_steps: int = 0
    """Evaluate every this many steps; 0: only before and after."""
    eval_num_problems: int = 256
    """At most this many problems of each set, the first ones."""
    eval_num_samples: int = 1
    """Episodes of each problem; accuracy is their mean (avg@k)."""
    eval_temperature: float = 1.0
    """0 is greedy."""
    eval_max_rounds: int | None = None
    """None: as in training."""
    eval_max_completion_length: int | None = None
    """None: as in training."""

    def __post_init__(self) -> None:
        for name in ("eval_num_problems", "eval_num_samples", "eval_max_rounds", "eval_max_completion_length"):
            if getattr(self, name) is not None:
                at_least(name, getattr(self, name), 1)
        for name in ("eval_steps", "eval_temperature"):
            at_least(name, getattr(self, name), 0)


@dataclass(frozen=True)
class CommonConfig:
    """Where output goes, and where settings come from."""

    output_dir: str | None = None
    """The folder to write; must be new or empty unless a run is resumed. None: runs/<command>-<date>-<time>."""
    seed: int = 0
    """Decides problems, samples and minibatches. The same seed gives the same run on a CPU."""
    preset: str | None = None
    """A named set of flags: embedded (where no model is named), rema-multi-turn (the paper's, for turn_ppo)."""
    config: str | None = None
    """A YAML file of flags, e.g. the config.yaml of a run."""

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        if self.output_dir is not None and not self.output_dir.strip():
            raise ValueError("--output-dir is empty: name a folder, or leave it out")


@dataclass(frozen=True)
class RunConfig:
    """The run's length, checkpoints and reports."""

    max_steps: int = 500
    """Steps: episodes are played, then trained on."""
    save_steps: int = 50
    """A checkpoint every this many steps; 0: only the final folder."""
    save_total_limit: int | None = None
    """Keep only this many checkpoints, the newest. None: all."""
    resume_from_checkpoint: str | None = None
    """A checkpoint folder, or `latest` of --output-dir; where there is none yet the run starts from the beginning."""
    logging_steps: int = 1
    """Print a line every this many steps; metrics.jsonl has every step."""
    num_completions_to_print: int = 2
    """Dialogues shown after the first step and after the last."""
    dry_run: bool = False
    """Print what a step consists of and the memory it needs, and load nothing."""
    gpus: str | None = None
    """With --dry-run: the GPUs to plan for, COUNTxSIZE, e.g. 4x48GB; a plan that cannot fit them is refused."""
    on_alarm: Literal["warn", "stop"] = "warn"
    """When a run shows signs of collapse: say so, or also stop it, with a checkpoint."""
    report_to: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl."""

    def __post_init__(self) -> None:
        at_least("max_steps", self.max_steps, 0)
        at_least("save_steps", self.save_steps, 0)
        at_least("logging_steps", self.logging_steps, 1)
        if self.save_total_limit is not None:
            at_least("save_total_limit", self.save_total_limit, 1)


@dataclass(frozen=True)
class CommandConfig:
    """Groups that every command has."""

    common: Flat[CommonConfig] = field(default_factory=CommonConfig)
    env: Flat[EnvConfig] = field(default_factory=EnvConfig)
    model: Flat[ModelConfig] = field(default_factory=ModelConfig)
    limits: Flat[LimitsConfig] = field(default_factory=LimitsConfig)


@dataclass(frozen=True)
class TrainConfig(CommandConfig):
    """Groups that every training command has; an algorithm adds its own."""

    run: Flat[RunConfig] = field(default_factory=RunConfig)
    sampling: Flat[SamplingConfig] = field(default_factory=SamplingConfig)
    learner: Flat[LearnerConfig] = field(default_factory=LearnerConfig)
    evaluation: Flat[EvalConfig] = field(default_factory=EvalConfig)

    def __post_init__(self) -> None:
        episodes = self.sampling.problems_per_step * self.sampling.num_generations
        if episodes % self.learner.num_minibatches:
            raise ValueError(
                f"{self.sampling.problems_per_step} problems x {self.sampling.num_generations} episodes = {episodes} "
                f"do not divide into --num-minibatches {self.learner.num_minibatches}; choose a divisor of {episodes}"
            )
