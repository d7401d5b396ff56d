"""Names that users of other projects know, and what stands for them here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
"""A flag that only other projects have -> the one here."""

LOSS_TYPES = {"grpo": "trajectory", "dapo": "token", "bnpo": "token", "dr_grpo": "constant"}
"""TRL's word for a share."""

WORDS = {"scale_rewards": {"true": "group", "false": "none"}}
"""Setting -> TRL's word for a choice -> ours."""


def in_our_words(name: str, value: Any) -> Any:
    """A setting's value, TRL's words for it put as ours."""
    return WORDS.get(name, {}).get(str(value).lower(), value)


def with_our_words(argv: Sequence[str]) -> list[str]:
    """The arguments with TRL's words put as ours, `--loss-type` as `--share`.

    Raises ValueError for a loss type that is no share, or beside one.
    """
    args: list[str] = []
    words = iter(argv)
    for arg in words:
        flag, equals, value = arg.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if name not in ("loss_type", *WORDS):
            args.append(arg)
            continue
        word = value if equals else next(words, "")
        if name == "loss_type" and word not in LOSS_TYPES:
            raise ValueError(f"--loss-type {word} is no share of the loss; there are: {', '.join(LOSS_TYPES)}")
        if name == "loss_type" and any(other.partition("=")[0] == "--share" for other in argv):
            raise ValueError("--loss-type is TRL's name for --share: give one of them")
        args += ["--share", LOSS_TYPES[word]] if name == "loss_type" else [flag, in_our_words(name, word)]
    return args


def known_flag(arg: str) -> str:
    """The argument itself; raises ValueError, naming ours, for a flag that only other projects have."""
    name = arg.removeprefix("--").partition("=")[0].replace("_", "-")
    if arg.startswith("--") and name in OTHER_NAMES:
        raise ValueError(f"there is no flag --{name} here; use {OTHER_NAMES[name]}")
    return arg
