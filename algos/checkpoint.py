"""Checkpoints: everything a resumed run needs, written whole or not at all.

checkpoint-40/policy/ (or one folder a role)      weights, a Hugging Face folder
checkpoint-40/trainer/progress.json               step, draw of problems, schedule, carry, versions, ranks
checkpoint-40/trainer/policy/                     optimizer, schedule and master weights, as DeepSpeed has them
checkpoint-40/trainer/random/rank-000.json        the global random generators, one file a rank
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from algos import ranks
from algos.config import TrainConfig
from algos.deepspeed_config import zero_stage
from algos.prompts import write_prompts
from algos.publish import publish
from algos.scoring import Precision
from algos.seeds import generator_states, restore_generators
from algos.state import Progress, Run
from rema_agents.models import local_folder
from rema_agents.trained import PROMPTS


def save_weights(run: Run, folder: Path) -> None:
    """Every policy as a Hugging Face folder with its tokenizer; one that does not learn as it came."""
    for policy in run.team.policies:
        if policy.learner is not None:
            policy.learner.save(folder / policy.name)
        if not ranks.is_first():
            continue
        if policy.learner is None:
            keep_frozen(local_folder(policy.folder), folder / policy.name, run.folder.path)
        else:
            policy.codec.tokenizer.save_pretrained(folder / policy.name)
        write_prompts(folder / policy.name, run.world.system_prompts)


def keep_frozen(source: Path, target: Path, run: Path) -> None:
    """A model folder that no step changes, whole in every checkpoint and on the disk once.

    What the run holds already, by name, size and time as rsync tells, is linked, where the file system has hard links;
    never to the source itself, which is the user's to write to.
    """

    def keep(file: str, kept: str) -> None:
        place = Path(kept).relative_to(target.parent)
        for folder in (run / "best", *run.glob("checkpoint-*")):
            if unchanged(Path(file), folder / place):
                with suppress(OSError):
                    os.link(folder / place, kept)
                    return
        shutil.copy2(file, kept)

    shutil.copytree(source, target, copy_function=keep, ignore=shutil.ignore_patterns(PROMPTS))


def unchanged(file: Path, earlier: Path) -> bool:
    """Whether a file is what it was when it was copied."""
    if not earlier.is_file():
        return False
    now, then = file.stat(), earlier.stat()
    return (now.st_size, now.st_mtime_ns) == (then.st_size, then.st_mtime_ns)


def save_checkpoint(run: Run) -> Path:
    """Everything that a resumed run needs. Samplers sleep meanwhile: optimizer states need the GPU to be written."""
    run.team.sleep()

    def fill(folder: Path) -> None:
        save_weights(run, folder)
        trainer = folder / "trainer"
        for policy in run.team.learning():
            assert policy.learner is not None
            policy.learner.save_state(trainer / policy.name)
            policy.learner.rest()
        random = trainer / "random"
        random.mkdir(parents=True, exist_ok=True)
        (random / f"rank-{ranks.number():03d}.json").write_text(json.dumps(generator_states()))
        if ranks.is_first():
            (trainer / "progress.json").write_text(json.dumps(_progress(run)))

    return run.folder.write_checkpoint(run.progress.step, fill, keep=run.config.run.save_total_limit)


def _progress(run: Run) -> dict[str, Any]:
    return {
        **vars(run.progress),
        "versions": {policy.name: policy.version for policy in run.team.policies},
        "ranks": ranks.count(),
        "zero_stage": zero_stage(run.config.learner),
        "learning": [policy.name for policy in run.team.learning()],
        "fixed": fixed(run.config),
    }


def read_progress(path: Path, config: TrainConfig) -> dict[str, Any]:
    """What a checkpoint says about its run.

    Without ZeRO every rank has everything, so any number of ranks can go on; with it each holds a part.

    Raises:
        ValueError: it is no checkpoint of a run, or this run cannot go on from it.
    """
    file = path / "trainer" / "progress.json"
    if not file.is_file():
        raise ValueError(f"--resume-from-checkpoint: {path} is no checkpoint of a run")
    try:
        state: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"--resume-from-checkpoint: {file} is damaged; choose another checkpoint") from None
    stage, saved = zero_stage(config.learner), (state["zero_stage"], state["ranks"])
    if saved[0] != stage or (stage and saved[1] != ranks.count()):
        was, here = (f"{n} rank{'s' * (n > 1)} with ZeRO stage {s}" for s, n in (saved, (stage, ranks.count())))
        raise ValueError(
            f"{path} was written by {was} and cannot be taken up by {here}: use the same, or start afresh from its "
            f"weights alone with --model-name-or-path {path}"
        )
    for name, was in state.get("fixed", {}).items():
        if (now := fixed(config)[name]) != was:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{path} was written with {flag} {was} and cannot be taken up with {flag} {now}: keep it, or start "
                f"afresh from its weights alone with --model-name-or-path {path}"
            )
    return state


def progress_in(state: Mapping[str, Any]) -> Progress:
    """How far the run was that wrote a checkpoint."""
    return Progress(**{item.name: state[item.name] for item in fields(Progress) if item.name in state})


def fixed(config: TrainConfig) -> dict[str, Any]:
    """The settings that give a checkpoint its form. Others may change when a run goes on."""
    model = config.model
    return {
        "optimizer": config.learner.optimizer,
        "lora_rank": model.lora_rank,
        "lora_alpha": model.lora_alpha if model.lora_rank else None,
        "bf16": Precision.here(model.bf16).bf16,
    }


def load_checkpoint(run: Run, path: Path) -> None:
    """Go on from a checkpoint: weights, optimizer, schedule, step and random states.

    Raises ValueError where it holds other policies than those that learn now.
    """
    state = read_progress(path, run.config)
    learning = [policy.name for policy in run.team.learning()]
    if state["learning"] != learning:
        raise ValueError(
            f"{path} holds the training of {state['learning']}, not of {learning}: keep --team and --train"
        )
    versions = state["versions"]
    run.progress = progress_in(state)
    run.team.sleep()
    for policy in run.team.learning():
        assert policy.learner is not None
        policy.learner.load_state(path / "trainer" / policy.name)
        policy.learner.rest()
    for policy in run.team.learning():
        policy.version = versions[policy.name] - 1
        publish(policy)
    random = path / "trainer" / "random" / f"rank-{ranks.number():03d}.json"
    if random.is_file():
        restore_generators(json.loads(random.read_text()))
