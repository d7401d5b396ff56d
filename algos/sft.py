"""Supervised finetuning on dialogues: the cold start of a pair, and how the embedded model was made.

    L = - sum_t w_t logp_t          t: every token that a learning role says, its end of message included

The dialogues are played through the environment and the chat codec, so a row of finetuning is a row of reinforcement
learning, and this is one more loss over the same batch. They come from a file (`--dataset-name`: columns question and
turns, a list of {meta, reasoning}) or from the oracle of the procedural problems, in the processes that `--processes`
names, with the mistakes that `--plain`, `--slip` and `--early` ask for. One that does not come to its own end within
`--max-rounds` is refused.

For the embedded model the settings of `rema_agents/tiny/cold_start.yaml` apply: fresh weights, 2,400 steps. On one
thread of a CPU (OMP_NUM_THREADS=1) the same seed gives the same weights, bit for bit.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import OmitArgPrefixes as Flat

from algos import ranks
from algos.command_line import exit_on_full_disk, exit_on_mistakes, flatten, parse, peek, with_settings
from algos.config import CommandConfig, LearnerConfig
from algos.prompts import write_prompts
from rema_agents.models import EMBEDDED, model_folder
from rema_agents.yaml_file import read_yaml

if TYPE_CHECKING:
    from torch import Tensor

    from algos.algorithm import Metrics, Out
    from algos.batch import Batch
    from algos.lessons import Lesson
    from algos.run_folder import RunFolder
    from algos.team import Policy
    from algos.world import World


@dataclass(frozen=True)
class SFTConfig:
    """What is studied, and for how long."""

    max_steps: int = 500
    """Optimizer steps."""
    dialogues_per_step: int = 32
    """Dialogues of one optimizer step; each is a row for every role that learns."""
    max_length: int = 4096
    """The limit of tokens a row: a dialogue stops before the message that would go beyond."""
    from_scratch: bool = False
    """Start from fresh weights of the model's architecture, decided by the seed, instead of its own."""
    processes: tuple[str, ...] = ()
    """Without a dataset: the processes to teach, dealt in turn; one named twice gets twice as many. None: --process."""
    operations: tuple[int, ...] = (2,)
    """Without a dataset: the levels of the procedural problems, dealt in turn."""
    plain: float = 0.0
    """Without a dataset: the part of dialogues whose plan goes from left to right, whatever the precedence."""
    slip: float = 0.0
    """Without a dataset: the probability that a result is wrong; later steps go on from it."""
    early: float = 0.0
    """Without a dataset: the probability that a dialogue is finished one operation too soon."""
    logging_steps: int = 10
    """Print a line every this many steps; metrics.jsonl has every step."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "dialogues_per_step", "max_length", "logging_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if not self.operations:
            raise ValueError("--operations needs at least one level")
        for name in ("plain", "slip", "early"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"--{name} is a probability, got {getattr(self, name)}")


@dataclass(frozen=True)
class Config(CommandConfig):
    """Teach a model to play its roles, by dialogues that show it how."""

    sft: Flat[SFTConfig] = field(default_factory=SFTConfig)
    learner: Flat[LearnerConfig] = field(default_factory=LearnerConfig)

    def __post_init__(self) -> None:
        if self.model.lora_rank or self.learner.learning_rates:
            raise ValueError("finetuning trains all weights at one rate: leave out --lora-rank and --learning-rates")


def loss(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    """Cross-entropy [nats a token], each token with its share."""
    return -(batch.share_BT * out.logp_BT).sum(), {}


@dataclass(frozen=True)
class School:
    """All parts of a run.

    Attributes:
        worlds: by the name of the process.
        lesson: index -> dialogue.
        pupils: the policies that learn.
    """

    config: Config
    worlds: Mapping[str, World]
    lesson: Callable[[int], Lesson]
    pupils: Sequence[Policy]
    folder: RunFolder


def train(school: School, say: Callable[[str], None]) -> Path:
    """Study to the end, or to Ctrl-C; returns the folder of the final weights."""
    from algos.interrupt import Interrupts

    config, start = school.config.sft, time.perf_counter()
    step, metrics = 0, {}
    with Interrupts() as interrupts:
        while step < config.max_steps and not interrupts.agreed():
            step += 1
            metrics = study(school, step)
            school.folder.log(metrics)
            if step % config.logging_steps == 0 or step == config.max_steps:
                say(f"step {step}/{config.max_steps}  loss {metrics['loss']:.4f}  {time.perf_counter() - start:.0f} s")
    final = school.folder.write_folder("final", lambda folder: save(school, folder))
    school.folder.write_summary(
        {
            "seed": school.config.common.seed,
            "steps": step,
            "train_seconds": round(time.perf_counter() - start, 2),
            "loss": metrics["loss"],
            "command": shlex.join(sys.orig_argv),
        }
    )
    return final


def study(school: School, step: int) -> dict[str, Any]:
    """One step: play the dialogues, then one update of every pupil; its metrics."""
    from algos.batch import make_batch
    from algos.functional import token_shares
    from algos.lessons import play_lessons

    config, start = school.config.sft, time.perf_counter()
    n = config.dialogues_per_step
    lessons = [school.lesson(index) for index in range((step - 1) * n, step * n)]
    metrics: dict[str, Any] = {"step": step}
    for pupil in school.pupils:
        assert pupil.learner is not None
        episodes = [
            episode
            for process, world in school.worlds.items()
            if (part := [lesson for lesson in lessons if lesson.process == process])
            for episode in play_lessons(world.make_env, pupil.codec, part, config.max_length)
        ]
        batch = make_batch(episodes, pupil.agents)
        batch = batch.with_tensors(share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float())
        prefix = f"{pupil.name}/" if len(school.pupils) > 1 else ""
        metrics |= {prefix + name: value for name, value in pupil.learner.update(batch, loss).items()}
        metrics[f"{prefix}tokens"] = batch.tokens
    metrics.setdefault("loss", sum(v for k, v in metrics.items() if k.endswith("/loss")) / len(school.pupils))
    return metrics | {"step_time": time.perf_counter() - start}


def save(school: School, folder: Path) -> None:
    """Every pupil as a Hugging Face folder with its tokenizer."""
    for pupil in school.pupils:
        assert pupil.learner is not None
        pupil.learner.save(folder / pupil.name)
        if not ranks.is_first():
            continue
        pupil.codec.tokenizer.save_pretrained(folder / pupil.name)
        if len(school.worlds) == 1:  # else each process has prompts of its own
            write_prompts(folder / pupil.name, *(world.system_prompts for world in school.worlds.values()))


def prepare(config: Config) -> School:
    """Build everything, models last. Raises ValueError for what the user can mend."""
    from algos.lessons import Mistakes, make_lessons
    from algos.run_folder import RunFolder, unused
    from algos.team import learning_agents
    from algos.world import make_world

    if config.model.model_name_or_path is None:
        raise ValueError("no model is named: give --model-name-or-path, or --preset embedded")
    if config.env.question_column or config.env.answer_column:
        raise ValueError(
            "finetuning reads the columns question, turns and answer: leave out --question-column and such"
        )
    s, seed, dataset = config.sft, config.common.seed, config.env.dataset_name
    env = dataclasses.replace(config.env, dataset_name=None)
    dealt = (s.processes if dataset is None else ()) or (env.process,)
    worlds = {process: make_world(dataclasses.replace(env, process=process)) for process in dict.fromkeys(dealt)}
    mistakes = Mistakes(s.operations, s.plain, s.slip, s.early)
    casts = [(process, worlds[process].agents) for process in dealt]
    lesson = make_lessons(dataset, mistakes, casts, seed, {name: world.make_env() for name, world in worlds.items()})
    agents = tuple(dict.fromkeys(agent for world in worlds.values() for agent in world.agents))
    learning = learning_agents(config.model, agents)
    path = Path(config.common.output_dir or unused("sft"))
    folder = RunFolder(ranks.gather(path)[0])
    folder.write_config(flatten(config))
    return School(config, worlds, lesson, enrol(config, learning, folder), folder)


def enrol(config: Config, learning: Sequence[str], folder: RunFolder) -> list[Policy]:
    """The policies that learn, each with its learner."""
    from algos.learner import Learner
    from algos.scoring import Precision
    from algos.team import Policy, policy_names
    from rema_agents.chat import ChatCodec

    assert config.model.model_name_or_path is not None
    names = policy_names(config.model, learning)
    precision = Precision.here(config.model.bf16)
    pupils = []
    for name in dict.fromkeys(names.values()):
        start = model_folder(config.model.model_name_or_path, name)
        codec = ChatCodec.from_pretrained(start, chat_template_kwargs=config.model.chat_template_kwargs)
        if config.sft.from_scratch:
            start = fresh(start, folder.path / "fresh" / name, config.common.seed)
        learner = Learner(start, config.learner, precision, total_updates=config.sft.max_steps)
        pupils.append(Policy(name, tuple(a for a in learning if names[a] == name), start, codec, None, learner))
    return pupils


def fresh(folder: str, target: Path, seed: int) -> str:
    """A folder of the same architecture with fresh weights, decided by `seed`; returns its path."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    if ranks.is_first():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(target)
    ranks.wait()
    return str(target)


def defaults(args: Sequence[str]) -> Config:
    """What holds before the command line's own flags; for the embedded model, its recipe below a file's settings."""
    path = peek(args, "config")
    settings: Mapping[str, Any] = read_yaml(path, "--config") if path else {}
    config = with_settings(Config, settings, str(path), args)
    if (peek(args, "model-name-or-path") or config.model.model_name_or_path) != EMBEDDED:
        return config
    from rema_agents.tiny import RECIPE

    recipe = read_yaml(str(RECIPE))
    if peek(args, "process") or "process" in settings:  # what is asked for takes the place of the recipe's
        del recipe["processes"]
    return with_settings(Config, {**recipe, **settings}, str(path or RECIPE), args)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `python -m algos.sft --dataset-name FILE --model-name-or-path FOLDER`."""
    prog = "python -m algos.sft"
    config = parse(Config, sys.argv[1:] if argv is None else argv, prog=prog, defaults=defaults)
    from algos.batch import NothingToTrainOn
    from algos.console import Console

    console = Console(quiet=not ranks.is_first())
    if config.common.preset:
        console.say(f"preset: {config.common.preset}")
    with ranks.ending_together():
        with exit_on_mistakes(prog):
            school = prepare(config)
        try:
            with exit_on_full_disk(prog), console:
                console.say(f"final weights: {train(school, console.say)}")
        except NothingToTrainOn as error:
            raise SystemExit(f"{prog}: {error}; raise --max-length {config.sft.max_length}") from None


if __name__ == "__main__":
    main()
