"""What a run is told: groups of flags, presets, YAML files, and how they are laid over each other.

Command line over `--config` file over `--preset` over defaults; unknown keys are refused. Fields are named as their
flags. The defaults are those that a 7B run needs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
import yaml
from tyro.conf import OmitArgPrefixes as Flat

from algos.presets import PRESETS
from algos.schedule import rounds_at

C = TypeVar("C", bound="CommandConfig")


def _json_object(args: list[str]) -> dict[str, Any]:
    try:
        value = json.loads(args[0])
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, got {args[0]}")
    return value


JsonObject = Annotated[
    dict[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=_json_object,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]
"""A flag whose value is a JSON object."""


@dataclass(frozen=True)
class EnvConfig:
    """The world: which environment, which problems, which rules."""

    env: str = "math_v0"
    """A built-in name, package.module:function, or a name of the entry-point group rema.envs."""
    env_kwargs: JsonObject = field(default_factory=dict)
    """Further arguments of the environment, as JSON, e.g. '{"operations": 3}'."""
    process: str = "multi_turn"
    """Who speaks when: a process that the environment knows, e.g. multi_turn."""
    dataset_name: str | None = None
    """A parquet, JSON Lines or CSV file, or a hub name. None: the environment's own procedural problems."""
    question_column: str | None = None
    """The column of the question, where its name is not one of the usual ones."""
    answer_column: str | None = None
    """The column of the golden answer, where its name is not one of the usual ones."""
    system_prompts: str | None = None
    """A YAML file (role: text), or `embedded` for the embedded model's terse ones. None: the environment's own."""
    max_rounds: int | str = 30
    """The limit of rounds (one turn of each agent); or ROUNDS:STEP pairs that raise it, e.g. 1:0,4:100,30:200."""
    on_cut: Literal["end", "continue"] = "end"
    """Whether a message cut at the token limit ends the dialogue."""
    unfinished_reward: Literal["zero", "drop", "grade"] = "zero"
    """Dialogues that did not finish: no reward, left out of the loss, or graded all the same."""
    rewards: JsonObject = field(default_factory=dict)
    """Weights of reward terms, as JSON, e.g. '{"answer": 1, "meta/leak": -0.5}'. Empty: the environment's own."""
    grader: str | None = None
    """package.module:function, or a built-in grader's name. None: the environment's own."""

    def __post_init__(self) -> None:
        _at_least("max_rounds", rounds_at(self.max_rounds, 1), 1)


@dataclass(frozen=True)
class ModelConfig:
    """The agents: whose weights, shared or separate, and who learns."""

    model_name_or_path: str | None = None
    """A model folder, a checkpoint, a run folder, or a hub name. None: the preset `embedded`."""
    team: Literal["shared", "separate"] = "shared"
    """One set of weights for all roles, or one for each."""
    train: str = "all"
    """all; the roles that learn, separated by commas; or alternate:N, one role at a time for N steps each."""
    first: str | None = None
    """With alternate: the role that learns first. None: the environment's first."""
    sampler: Literal["auto", "hf", "vllm", "remote"] = "auto"
    """auto: vllm with a GPU where it is installed, else hf. remote: the model on --server."""
    server: str | None = None
    """An OpenAI-compatible server, http://HOST:PORT/v1; or ROLE=URL,...: these roles play there, whatever --sampler."""
    vllm_gpu_memory_utilization: float = 0.5
    """The share of a GPU's memory for vLLM's weights and cache; the learner needs the rest."""
    vllm_tensor_parallel_size: int = 1
    """GPUs that one vLLM engine is spread over, in a run of one rank."""
    chat_template_kwargs: JsonObject = field(default_factory=dict)
    """Passed to the chat template, as JSON, e.g. '{"enable_thinking": false}'."""
    lora_rank: int = 0
    """Train adapters of this rank (LoRA) on one frozen base that all policies share; 0: all weights."""
    lora_alpha: int = 32
    """LoRA's scale: what an adapter adds is multiplied by alpha / rank."""
    share_thinking: bool = False
    """Leave a message's reasoning block in it, for the partner to see and for flag and answer to be searched in."""
    bf16: bool | None = None
    """Compute in bfloat16 over float32 master weights. None: on GPUs yes, on a CPU no."""


@dataclass(frozen=True)
class LimitsConfig:
    """What a dialogue may cost."""

    max_completion_length: int = 512
    """The limit of tokens a message."""
    max_prompt_length: int = 4096
    """The limit of tokens of the rendered chat at a call; above it the dialogue ends as context_full."""
    max_concurrency: int = 512
    """How many dialogues are under way at once on a rank."""
    dialogue_timeout: float | None = None
    """Seconds until a dialogue is aborted (never trained on). None: no limit."""

    def __post_init__(self) -> None:
        for name in ("max_completion_length", "max_prompt_length", "max_concurrency"):
            _at_least(name, getattr(self, name), 1)


@dataclass(frozen=True)
class SamplingConfig:
    """How a step's episodes are made."""

    problems_per_step: int = 128
    """Problems of one step, over all ranks."""
    num_generations: int = 8
    """Episodes of one problem: the group size."""
    group_rewards: JsonObject = field(default_factory=dict)
    """Weights of terms that look at a whole group, as JSON, e.g. '{"meta/majority_share": 0.5}'; added after play."""
    temperature: float = 1.0
    """Divides the logits, in sampling and in the learner alike."""
    top_p: float = 1.0
    """Must stay 1 in training: a cut distribution is not the one whose log-probabilities are trained."""
    top_k: int = 0
    """Must stay 0 in training, as top_p."""
    group_by: Literal["problem", "context"] = "problem"
    """Compare one agent's episodes of one problem, or only those that also answered the very same first prompt."""
    num_branches: int = 1
    """Continuations of every episode, itself included, from the turn at which it is branched; 1: no branching."""
    branch_turn: int = 1
    """Branches share so many first turns (1: the first plan); 0: a number drawn for each episode."""
    dynamic_sampling: bool = False
    """Leave out groups that teach nothing and draw further problems instead."""
    max_sampling_rounds: int = 4
    """With dynamic sampling: draw at most so many times the problems of a step."""
    success_rate: str = "0:1"
    """With dynamic sampling: keep groups whose mean grade lies within LOW:HIGH, e.g. 0.2:0.8."""
    overlong: Literal["keep", "mask", "penalise"] = "keep"
    """Trajectories with a message cut at the limit: learnt from, left out of the loss, or paid less."""
    overlong_buffer: int = 64
    """With penalise: a message pays for running into the last so many tokens of the limit, up to 1."""

    def __post_init__(self) -> None:
        for name in ("problems_per_step", "num_generations", "num_branches", "max_sampling_rounds", "overlong_buffer"):
            _at_least(name, getattr(self, name), 1)
        _at_least("branch_turn", self.branch_turn, 0)
        if not 0 <= self.bounds[0] <= self.bounds[1] <= 1:
            raise ValueError(f"--success-rate {self.success_rate}: LOW:HIGH must be between 0 and 1, e.g. 0.2:0.8")
        if self.temperature <= 0 or self.top_p != 1 or self.top_k != 0:
            raise ValueError(
                "training needs --temperature above 0, --top-p 1 and --top-k 0: sampling from a cut or greedy "
                "distribution would not be the policy whose log-probabilities are trained, got "
                f"temperature {self.temperature}, top_p {self.top_p}, top_k {self.top_k}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """What `success_rate` says. Raises ValueError where it cannot be read."""
        low, _, high = self.success_rate.partition(":")
        try:
            return float(low), float(high)
        except ValueError:
            raise ValueError(f"--success-rate {self.success_rate} is not LOW:HIGH, e.g. 0.2:0.8") from None


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
    """After the warm-up: constant, or down to 0 at the last update."""
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
    """Trajectories whose advantage is exactly 0 (groups that agree): left out of the minibatches, or kept in shares."""
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
            _at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "max_grad_norm", "weight_decay", "warmup_steps"):
            _at_least(name, getattr(self, name), 0)


@dataclass(frozen=True)
class EvalConfig:
    """How well the team does, before, during and after training."""

    eval_datasets: tuple[str, ...] = ()
    """Files or hub names. None named: the procedural problems' held-out split, where those are trained on."""
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
        for name in ("eval_num_problems", "eval_num_samples"):
            _at_least(name, getattr(self, name), 1)
        for name in ("eval_steps", "eval_temperature"):
            _at_least(name, getattr(self, name), 0)


@dataclass(frozen=True)
class CommonConfig:
    """Where output goes, and where settings come from."""

    output_dir: str | None = None
    """The folder to write; must be new or empty unless a run is resumed. None: runs/<command>-<date>-<time>."""
    seed: int = 0
    """Decides problems, samples and minibatches. The same seed gives the same run on a CPU."""
    preset: str | None = None
    """A named set of flags. With no model named it is `embedded`."""
    config: str | None = None
    """A YAML file of flags, e.g. the config.yaml of a run."""


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
        _at_least("max_steps", self.max_steps, 0)
        _at_least("save_steps", self.save_steps, 0)
        _at_least("logging_steps", self.logging_steps, 1)
        if self.save_total_limit is not None:
            _at_least("save_total_limit", self.save_total_limit, 1)


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


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")


def flatten(config: CommandConfig) -> dict[str, Any]:
    """All settings by flag name (with underscores), plain YAML values."""
    flat: dict[str, Any] = {}
    for group in _groups(config):
        for item in dataclasses.fields(getattr(config, group)):
            value = getattr(getattr(config, group), item.name)
            flat[item.name] = list(value) if isinstance(value, tuple) else value
    return flat


def _groups(config: CommandConfig) -> list[str]:
    return [f.name for f in dataclasses.fields(config) if dataclasses.is_dataclass(getattr(config, f.name))]


def lay_over(config: C, settings: Mapping[str, Any], source: str) -> C:
    """`config` with the named settings changed. Raises ValueError for a name that it does not have.

    Args:
        settings: flag name (with underscores) -> value.
        source: where they come from, for the message.
    """
    group_of = {item.name: group for group in _groups(config) for item in dataclasses.fields(getattr(config, group))}
    changes: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        name = name.replace("-", "_")
        if name not in group_of:
            raise ValueError(f"{source}: there is no setting {name!r}; there are: {', '.join(sorted(group_of))}")
        value = tuple(value) if isinstance(value, list) else value
        changes.setdefault(group_of[name], {})[name] = value
    groups = {name: dataclasses.replace(getattr(config, name), **change) for name, change in changes.items()}
    return dataclasses.replace(config, **groups)


def parse(
    config_class: type[C],
    argv: Sequence[str],
    *,
    prog: str,
    defaults: Callable[[Sequence[str]], C] | None = None,
) -> C:
    """The configuration that a command line stands for. A mistake prints one message and exits with code 2.

    Args:
        defaults: what holds before the command line's own flags; default: class defaults, preset, file.
    """
    with exit_on_mistakes(prog):
        own = [arg for arg in argv if not arg.startswith("--local_rank=")]  # DeepSpeed's launcher adds it
        args = [_known_flag(arg) for arg in _with_share(own)]
        default = defaults(args) if defaults else _defaults(config_class, args)
    return tyro.cli(config_class, args=args, default=default, prog=prog)


@contextmanager
def exit_on_mistakes(prog: str) -> Iterator[None]:
    """Within: a ValueError is the user's to mend, so its message is printed and the process exits with code 2.

    Of the ranks on one machine the first one prints.
    """
    try:
        yield
    except ValueError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(f"{prog}: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _defaults(config_class: type[C], args: Sequence[str]) -> C:
    """What holds before the command line's own flags: class defaults, then preset, then file."""
    path = peek(args, "config")
    return with_settings(config_class, read_yaml(path) if path else {}, str(path), args)


def with_settings(config_class: type[C], settings: Mapping[str, Any], source: str, args: Sequence[str] = ()) -> C:
    """Class defaults, then the preset that `args` or `settings` name (`embedded` where no model is), then settings."""
    model = peek(args, "model-name-or-path") or settings.get("model_name_or_path")
    preset = peek(args, "preset") or settings.get("preset") or (None if model else "embedded")
    config = config_class()
    if preset:
        if preset not in PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(sorted(PRESETS))}")
        known = flatten(config)
        config = lay_over(config, {k: v for k, v in PRESETS[preset].items() if k in known}, f"preset {preset}")
        config = lay_over(config, {"preset": preset}, "preset")
    return lay_over(config, settings, source)


def peek(args: Sequence[str], flag: str) -> str | None:
    """The value of one flag, read before the full parser runs."""
    value = None
    for i, arg in enumerate(args):
        name, _, rest = arg.partition("=")
        if name.replace("_", "-") == f"--{flag}":
            value = rest or (args[i + 1] if i + 1 < len(args) else None)
    return value


def read_yaml(path: str) -> dict[str, Any]:
    """Settings from a YAML file. Raises ValueError where it is missing or holds something else."""
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"--config {path}: there is no such file")
    try:
        settings = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"--config {path} is not YAML: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"--config {path} must hold settings as `name: value` lines")
    return settings


OTHER_NAMES = {
    "per-device-train-batch-size": "--problems-per-step and --micro-batch-tokens",
    "gradient-accumulation-steps": "--micro-batch-tokens (accumulation follows from it)",
    "num-train-epochs": "--max-steps",
    "rollout-batch-size": "--problems-per-step",
    "train-batch-size": "--problems-per-step",
    "micro-train-batch-size": "--micro-batch-tokens",
    "n-samples-per-prompt": "--num-generations",
    "group-size": "--num-generations",
    "rollout-n": "--num-generations",
    "max-new-tokens": "--max-completion-length",
    "generate-max-len": "--max-completion-length",
    "max-response-length": "--max-completion-length",
    "prompt-max-len": "--max-prompt-length",
    "max-turns": "--max-rounds",
    "max-num-turns": "--max-rounds",
    "kl-coef": "--beta",
    "init-kl-coef": "--beta",
    "kl-loss-coef": "--beta",
    "kl-ctrl.kl-coef": "--beta",
    "cliprange": "--epsilon",
    "clip-ratio": "--epsilon",
    "clip-ratio-low": "--epsilon",
    "clip-ratio-high": "--epsilon-high",
    "eps-clip": "--epsilon",
    "agg-mode": "--share",
    "actor-learning-rate": "--learning-rate",
    "lr": "--learning-rate",
    "ppo-epochs": "--num-iterations",
    "ppo-mini-batch-size": "--num-minibatches",
    "use-vllm": "--sampler vllm",
    "pretrain": "--model-name-or-path",
    "model": "--model-name-or-path",
    "prompt-data": "--dataset-name",
    "dataset": "--dataset-name",
    "input-key": "--question-column",
    "label-key": "--answer-column",
    "save-path": "--output-dir",
    "ckpt-path": "--output-dir",
    "clip-grad": "--max-grad-norm",
    "max-norm": "--max-grad-norm",
}
"""Flags that users of other projects know, and what stands for them here."""

LOSS_TYPES = {"grpo": "trajectory", "dapo": "token", "bnpo": "token", "dr_grpo": "constant"}
"""TRL's word for a share."""


def _with_share(argv: Sequence[str]) -> list[str]:
    """The arguments with TRL's `--loss-type` put as `--share`. Raises ValueError for a loss type that is no share."""
    args: list[str] = []
    words = iter(argv)
    for arg in words:
        name, equals, value = arg.partition("=")
        if name.replace("_", "-") != "--loss-type":
            args.append(arg)
            continue
        word = value if equals else next(words, "")
        if word not in LOSS_TYPES:
            raise ValueError(f"--loss-type {word} is no share of the loss; there are: {', '.join(LOSS_TYPES)}")
        args += ["--share", LOSS_TYPES[word]]
    return args


def _known_flag(arg: str) -> str:
    """The argument itself; raises ValueError, naming ours, for a flag that only other projects have."""
    name = arg.removeprefix("--").partition("=")[0].replace("_", "-")
    if arg.startswith("--") and name in OTHER_NAMES:
        raise ValueError(f"there is no flag --{name} here; use {OTHER_NAMES[name]}")
    return arg
