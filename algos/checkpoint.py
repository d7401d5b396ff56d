"""Checkpoints: everything a resumed run needs, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from algos.models import local_folder
from algos.publish import publish
from algos.state import Run


def save_weights(run: Run, folder: Path) -> None:
    """Every policy as a Hugging Face folder with its tokenizer; one that does not learn as it came."""
    for policy in run.team.policies:
        if policy.learner is None:
            shutil.copytree(local_folder(policy.folder), folder / policy.name)
        else:
            policy.learner.save(folder / policy.name)
            policy.codec.tokenizer.save_pretrained(folder / policy.name)


def save_checkpoint(run: Run) -> Path:
    """Everything that a resumed run needs."""

    def fill(folder: Path) -> None:
        save_weights(run, folder)
        for policy in run.team.learning():
            assert policy.learner is not None
            policy.learner.save_state(folder / "trainer" / policy.name)
        versions = {policy.name: policy.version for policy in run.team.policies}
        state = {**vars(run.progress), "versions": versions}
        (folder / "trainer" / "progress.json").write_text(json.dumps(state))

    return run.folder.write_checkpoint(run.progress.step, fill, keep=run.config.run.save_total_limit)


def load_checkpoint(run: Run, path: Path) -> None:
    """Go on from a checkpoint: weights, optimizer, schedule, step, and the metrics up to it."""
    state = json.loads((path / "trainer" / "progress.json").read_text())
    versions = state.pop("versions")
    run.progress = replace(run.progress, **state)
    for policy in run.team.learning():
        assert policy.learner is not None
        policy.learner.load_state(path / "trainer" / policy.name)
        policy.version = versions[policy.name] - 1
        publish(policy)
    run.folder.forget_after(run.progress.step)
