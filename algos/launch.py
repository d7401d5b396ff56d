"""From a configuration to a finished run: check, build, train, say where everything is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from algos.algorithm import Algorithm
from algos.checkpoint import load_checkpoint
from algos.config import TrainConfig, exit_on_mistakes, flatten
from algos.console import Console, hush_libraries
from algos.evaluate import Evaluation
from algos.report_to import Reporters
from algos.run_folder import RunFolder
from algos.state import Run
from algos.team import Policy, batch_layout, make_team, total_updates
from algos.world import eval_sets, make_world


def launch(config: TrainConfig, algorithm: Algorithm, *, command: str) -> dict[str, Any]:
    """Run one training command; returns its summary.

    What is wrong with the configuration is said in one message before any model is loaded, with exit code 2.
    """
    from algos.trainer import train

    console = Console()
    if config.common.preset:
        console.say(f"preset: {config.common.preset}")
    with exit_on_mistakes(f"python -m algos.{command}"):
        run, resumed = prepare(config, algorithm, console, command)
    try:
        if resumed is not None:
            load_checkpoint(run, resumed)
            console.say(f"resumed from {resumed}, after step {run.progress.step}")
        with console:
            summary = train(run)
    finally:
        run.reporters.close()
        run.team.close()
    before, after = (summary[name] for name in ("accuracy_before", "accuracy_after"))
    if before is not None and after is not None:
        greedy = summary["accuracy_greedy_before"], summary["accuracy_greedy_after"]
        console.say(
            f"held-out accuracy {before:.3f} before, {after:.3f} after {summary['steps']} steps and "
            f"{summary['train_seconds']:.0f} s of training (greedy {greedy[0]:.3f}, {greedy[1]:.3f})"
        )
    console.say(f"run folder: {run.folder.path}")
    return summary


def prepare(config: TrainConfig, algorithm: Algorithm, console: Console, command: str) -> tuple[Run, Path | None]:
    """All parts of a run, models last; and the checkpoint to resume from, if any."""
    world = make_world(config.env)
    evaluation = Evaluation.of(config)
    sets = eval_sets(config.evaluation, config.env, world)
    console.say(batch_layout(config, world.agents, ranks=int(os.environ.get("WORLD_SIZE", 1))))
    stamp = time.strftime("%Y%m%d-%H%M%S")
    resume = config.run.resume_from_checkpoint
    folder = RunFolder(Path(config.common.output_dir or f"runs/{command}-{stamp}"), resume=resume is not None)
    checkpoint = _checkpoint(folder, resume, console)
    from algos.learner import Learner
    from algos.scoring import Precision, Reference

    hush_libraries()
    precision = Precision.here(config.model.bf16)
    tokens, temperature = config.learner.micro_batch_tokens, config.sampling.temperature

    def add_learner(policy: Policy) -> None:
        policy.learner = Learner(
            policy.folder,
            config.learner,
            precision,
            temperature=temperature,
            total_updates=total_updates(config),
            needs=algorithm.needs,
        )
        if "ref_logp" in algorithm.needs:
            policy.reference = Reference(policy.folder, precision, temperature=temperature, micro_batch_tokens=tokens)

    team = make_team(config.model, world.agents, precision, add_learner=add_learner)
    settings = flatten(config)
    folder.write_config(settings)
    reporters = Reporters(config.run.report_to, folder.path, settings)
    return Run(config, algorithm, world, evaluation, team, folder, console, reporters, sets), checkpoint


def _checkpoint(folder: RunFolder, resume: str | None, console: Console) -> Path | None:
    if resume is None:
        return None
    path = folder.latest() if resume == "latest" else Path(resume)
    if path is None:
        console.say(f"there is no checkpoint in {folder.path} yet: starting from the beginning")
    elif not (path / "trainer").is_dir():
        raise ValueError(f"--resume-from-checkpoint {resume}: {path} is no checkpoint of a run")
    return path
