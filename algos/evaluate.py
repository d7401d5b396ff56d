"""How well a team does: accuracy on held-out problems, and the cross-play of both roles before and after training.

    python -m algos.evaluate RUN|MODEL [--cross-play]

Training evaluates with the same functions, so the figures are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from pettingzoo import AECEnv
from tyro.conf import OmitArgPrefixes as Flat
from tyro.conf import Positional

from algos import ranks
from algos.command_line import exit_on_mistakes, flatten, lay_over, parse, with_settings
from algos.config import CommandConfig, EvalConfig
from algos.console import Console, hush_libraries
from algos.cross_play import check_cross_play, cross_play, cross_play_table
from algos.doctor import installed
from algos.metrics import aborted, accuracy, finished, grading_failures
from algos.prompts import mismatch, write_prompts
from algos.rollout import play_on_all_ranks
from algos.run_folder import RunFolder
from algos.samplers import Room
from algos.seeds import seed_of
from algos.team import Team, make_team
from algos.world import World, eval_sets, make_world, with_env
from rema_agents.models import run_of
from rema_agents.play import Progress
from rema_agents.types import Episode, SamplingParams, Seat
from rema_agents.yaml_file import read_yaml
from rema_env.roles import digest
from rema_env.transcript import Problem, role_of

PROG = "python -m algos.evaluate"
EVALUATION = 2**31
"""Takes the place of the step in seeds, so that evaluation and training never draw the same numbers."""

WHY_ABORTED = "a model's server did not answer or they were not over within --dialogue-timeout"

SeatsFor = Callable[[int], Mapping[str, Seat]]


class NothingPlayed(RuntimeError):
    """No dialogue of an evaluation was played, so there is no score."""


@dataclass(frozen=True)
class Scores:
    """One evaluation set's result.

    Attributes:
        accuracy: mean over problems and samples at the evaluation temperature.
        accuracy_greedy: of one greedy episode a problem; None where not asked for.
        episodes: those at the evaluation temperature.
        aborted: how many dialogues were, greedy ones included.
    """

    accuracy: float
    accuracy_greedy: float | None
    episodes: Sequence[Episode]
    aborted: int = 0

    def doubts(self) -> list[str]:
        """What speaks against taking the score at its word, a sentence each."""
        lost = f"{self.aborted} dialogues were aborted, as {WHY_ABORTED}, and count as wrong" if self.aborted else None
        return [said for said in (lost, grading_failures(self.episodes)) if said is not None]


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation needs besides seats: the world under its rules, limits, and who is told of its progress."""

    make_env: Callable[[], AECEnv]
    config: CommandConfig
    settings: EvalConfig
    progress: Progress | None = None

    @classmethod
    def of(cls, config: Any, progress: Progress | None = None) -> Evaluation:
        """From a configuration with groups `env`, `limits`, `evaluation`, ..."""
        rounds = config.evaluation.eval_max_rounds
        env = config.env if rounds is None else with_env(config.env, max_rounds=rounds)
        return cls(make_world(env).make_env, config, config.evaluation, progress)

    def params(self, temperature: float) -> SamplingParams:
        """Sampling at a temperature; the same seed for every evaluation of a run, so that they compare."""
        length = self.settings.eval_max_completion_length or self.config.limits.max_completion_length
        return SamplingParams(length, temperature, seed=seed_of(self.config.common.seed, EVALUATION))

    def seats(self, team: Team, temperature: float) -> SeatsFor:
        """The team's seats under the evaluation's limits."""
        return team.seats(self.params(temperature), max_prompt_length=self.config.limits.max_prompt_length)

    def play(self, seats: SeatsFor, problems: Sequence[Problem], samples: int = 1) -> list[Episode]:
        """`samples` episodes of each problem, one group a problem. Raises NothingPlayed where all were aborted."""
        episodes = play_on_all_ranks(
            self.make_env,
            seats,
            problems,
            samples=samples,
            concurrency=self.config.limits.max_concurrency,
            time_limit=self.config.limits.dialogue_timeout,
            progress=self.progress,
        )
        if aborted(episodes) == len(episodes):
            raise NothingPlayed(f"there is no score: all {len(episodes)} dialogues were aborted, as {WHY_ABORTED}")
        return episodes


def evaluate_sets(
    team: Team, evaluation: Evaluation, sets: Mapping[str, Sequence[Problem]], *, greedy: bool = False
) -> dict[str, Scores]:
    """The team on every set: `eval_num_samples` episodes a problem at `eval_temperature`, and if asked a greedy one."""
    settings, scores = evaluation.settings, {}
    for name, problems in sets.items():
        temperature = settings.eval_temperature
        episodes = evaluation.play(evaluation.seats(team, temperature), problems, settings.eval_num_samples)
        again = greedy and temperature > 0
        by_greed = evaluation.play(evaluation.seats(team, 0.0), problems) if again else episodes
        lost = aborted(episodes) + (aborted(by_greed) if again else 0)
        scores[name] = Scores(accuracy(episodes), accuracy(by_greed) if greedy else None, episodes, lost)
    return scores


def provenance(world: World) -> dict[str, Any]:
    """What a score depends on besides weights, settings and problems: kept beside it, so that two scores compare.

    The grader is named as `rema_env.grading.load` names it, None for a function of the environment's own; no example
    is ever shown before a problem (`shots`), but for those in the system prompts, of which this is the digest.
    """
    spec = getattr(getattr(world.make_env().unwrapped, "grade", None), "spec", None)
    return {
        "version": installed("rema-rl"),
        "grader": None if spec is None else spec.name,
        "grader_options": {} if spec is None else dict(spec.options),
        "system_prompts": digest(world.system_prompts),
        "shots": 0,
    }


@dataclass(frozen=True)
class EvaluateConfig(CommandConfig):
    """Evaluate a run or a model on held-out problems."""

    target: Positional[str] = ""
    """A run folder, a checkpoint, a model folder, `embedded`, or a hub name. A run's settings are taken over."""
    evaluation: Flat[EvalConfig] = field(default_factory=EvalConfig)
    cross_play: bool = False
    """Pair both roles before and after training with each other (needs a run)."""
    influence: bool = False
    """For each role: how much the answer's probability changes when the role's messages are removed."""


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    args = list(sys.argv[1:] if argv is None else argv)
    with exit_on_mistakes(PROG):
        config = parse(EvaluateConfig, args, prog=PROG, defaults=_defaults)
        if not config.target:
            raise ValueError(
                "name what to evaluate: a run folder, a checkpoint, a model folder, embedded or a hub name"
            )
        world = make_world(config.env)
        sets = eval_sets(config.evaluation, config.env, world)
        if not sets:
            raise ValueError(f"there is nothing to evaluate on: name files with --eval-datasets (env {config.env.env})")
        if config.cross_play:
            if config.target == config.model.model_name_or_path:
                raise ValueError(f"--cross-play pairs before with after training, and {config.target} is no run")
            check_cross_play(world.agents, sets)
        with Console(quiet=not ranks.is_first()) as console:
            try:
                report(config, world, sets, console)
            except NothingPlayed as error:
                if ranks.is_first():
                    print(f"{PROG}: {error}", file=sys.stderr)
                raise SystemExit(1) from None


def _defaults(args: Sequence[str]) -> EvaluateConfig:
    """The settings of the run that is to be evaluated, where it is one; else those of its model."""
    target = tyro.cli(EvaluateConfig, args=args, prog=PROG).target
    run = run_of(target) if target else None
    if run is not None:
        written = run / "config.yaml"
        known = flatten(EvaluateConfig())
        settings = {name: value for name, value in read_yaml(str(written)).items() if name in known}
        config = with_settings(EvaluateConfig, settings, str(written), args)
        return lay_over(config, {"output_dir": None}, "")
    settings = {} if target in ("", "embedded") else {"model_name_or_path": target}
    return with_settings(EvaluateConfig, settings, "target", args)


def report(config: EvaluateConfig, world: World, sets: Mapping[str, Sequence[Problem]], console: Console) -> None:
    """Play, print, and keep the episodes where --output-dir says so."""
    from algos.scoring import Precision

    hush_libraries()
    evaluation = Evaluation.of(config, partial(console.progress, "dialogues"))
    precision = Precision.here(config.model.bf16)
    room, seed, model = Room.of(config), config.common.seed, config.model
    if config.cross_play:  # two teams play, and a GPU is there once
        model = replace(model, vllm_gpu_memory_utilization=model.vllm_gpu_memory_utilization / 2)
    with closing(make_team(model, world.agents, precision, model=config.target, room=room, seed=seed)) as team:
        for policy in team.policies:
            if (said := mismatch(policy.folder, world.system_prompts)) is not None:
                console.warn(said)
        folder = RunFolder(Path(config.common.output_dir)) if config.common.output_dir else None
        if folder is not None:
            folder.write_config({**flatten(config), "model_name_or_path": config.target})
            write_prompts(folder.path, world.system_prompts)
        scores = evaluate_sets(team, evaluation, sets, greedy=True)
        for name, score in scores.items():
            console.say(
                f"{name}: {len(sets[name])} problems, accuracy {score.accuracy:.3f} ({len(score.episodes)} episodes at "
                f"temperature {config.evaluation.eval_temperature:g}), greedy {score.accuracy_greedy:.3f}, "
                f"finished {finished(score.episodes):.1%}"
            )
            for doubt in score.doubts():
                console.warn(f"{name}: {doubt}")
            if folder is not None:
                folder.write_evaluation(name, score.episodes)
            if config.influence:
                console.say(f"{name}: influence on the answer: {influences(config, team, evaluation, score.episodes)}")
        if folder is not None:
            found = {name: {"accuracy": s.accuracy, "accuracy_greedy": s.accuracy_greedy} for name, s in scores.items()}
            folder.write_summary({"model": config.target, "evaluation": found, **provenance(world)})
        if config.cross_play:
            with closing(make_team(model, world.agents, precision, room=room, seed=seed)) as before:
                for name, problems in sets.items():
                    console.show(cross_play_table(name, cross_play(before, team, evaluation, problems)))


def influences(config: EvaluateConfig, team: Team, evaluation: Evaluation, episodes: Sequence[Episode]) -> str:
    """Each role's influence on the answer, as text; see `algos.influence`."""
    from algos.influence import influence
    from algos.scoring import Precision, Reference

    calls = [episode.calls[-1] for episode in episodes if episode.calls]
    if not calls:
        return "nobody said anything"
    answerer, env = team[calls[0].agent], evaluation.make_env()
    temperature, tokens = evaluation.settings.eval_temperature or 1.0, 16384
    precision = Precision.here(config.model.bf16)
    weights = Reference(answerer.folder, precision, temperature=temperature, micro_batch_tokens=tokens)
    found = {role_of(a): influence(env, episodes, role_of(a), codec=answerer.codec, reference=weights) for a in team}
    env.close()
    return ", ".join(f"{role} {'none' if value is None else f'{value:.3f}'}" for role, value in found.items())


if __name__ == "__main__":
    main()
