"""The run on disk: config, metrics, episodes, checkpoints. What was paid for is never lost.

RUN/config.yaml  metrics.jsonl  summary.json  latest  tensorboard/
    episodes/step-000012.jsonl  evaluation/...
    checkpoint-40/policy/ (or one folder a role)  checkpoint-40/trainer/
    best/policy/  final/policy/
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rema_agents.episodes import write_episodes
from rema_agents.types import Episode


class RunFolder:
    """A folder that one run writes.

    Args:
        path: new or empty, unless the run is resumed.
        resume: whether it is; only then may the folder hold a run already.

    Raises:
        ValueError: the folder holds something already and the run is not resumed.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise ValueError(f"--output-dir {path} is a file")
        if path.is_dir() and any(path.iterdir()) and not resume:
            raise ValueError(
                f"--output-dir {path} is not empty: name a new folder, or go on with --resume-from-checkpoint latest"
            )
        path.mkdir(parents=True, exist_ok=True)

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """config.yaml: the resolved settings; `--config` reads it again."""
        (self.path / "config.yaml").write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Append one step's metrics to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(metrics)) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All steps logged so far."""
        path = self.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def forget_after(self, step: int) -> None:
        """Drop metrics and episodes of steps beyond `step`: a resumed run makes them again."""
        kept = [line for line in self.metrics() if line["step"] <= step]
        _write_whole(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
        for path in (self.path / "episodes").glob("step-*.jsonl"):
            if int(path.stem.removeprefix("step-")) > step:
                path.unlink()

    def write_step(self, step: int, episodes: Sequence[Episode]) -> None:
        """Keep a training step's episodes."""
        write_episodes(self.path / "episodes" / f"step-{step:06d}.jsonl", episodes)

    def write_evaluation(self, name: str, episodes: Sequence[Episode]) -> None:
        """Keep an evaluation's episodes, in the same format."""
        write_episodes(self.path / "evaluation" / f"{name}.jsonl", episodes)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """summary.json."""
        _write_whole(self.path / "summary.json", json.dumps(dict(summary), indent=2) + "\n")

    def write_folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """A folder that appears whole or not at all: filled aside, then renamed; the old one goes last."""
        target, aside, old = (self.path / n for n in (name, f"{name}.tmp", f"{name}.old"))
        for leftover in (aside, old):
            shutil.rmtree(leftover, ignore_errors=True)
        aside.mkdir()
        fill(aside)
        if target.exists():
            target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        return target

    def write_checkpoint(self, step: int, fill: Callable[[Path], None], *, keep: int | None) -> Path:
        """checkpoint-STEP, then `latest`; then those beyond the newest `keep` are removed."""
        path = self.write_folder(f"checkpoint-{step}", fill)
        _write_whole(self.path / "latest", path.name)
        for old in self.checkpoints()[:-keep] if keep else ():
            shutil.rmtree(old)
        return path

    def checkpoints(self) -> list[Path]:
        """All whole checkpoints, oldest first."""
        found = (p for p in self.path.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit())
        return sorted(found, key=lambda path: int(path.name.removeprefix("checkpoint-")))

    def latest(self) -> Path | None:
        """The checkpoint to go on from, or None."""
        pointer = self.path / "latest"
        return self.path / pointer.read_text().strip() if pointer.is_file() else None


def _write_whole(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
