"""The run on disk: config, metrics, episodes, checkpoints. What was paid for is never lost.

RUN/config.yaml  metrics.jsonl  summary.json  latest  tensorboard/
    episodes/step-000012.jsonl  skipped/...  evaluation/...
    checkpoint-40/policy/ (or one folder a role)  checkpoint-40/trainer/
    best/policy/  final/policy/
    earlier-1/                  what an earlier start left, where the run did not go on from it
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from algos import ranks
from algos.claim import claim
from algos.disk_full import room_for
from rema_agents.episodes import write_episodes
from rema_agents.models import checkpoints, latest_checkpoint, step_of
from rema_agents.types import Episode

RESULT = ("final", "summary.json")
"""What a run leaves at its end."""
RECORDS = ("metrics.jsonl", "episodes", "evaluation", "skipped", "tensorboard", "best", *RESULT)
"""What a run leaves besides its settings and checkpoints."""

_LEFTOVER = re.compile(r"(checkpoint-\d+|best|final|latest|config\.yaml|metrics\.jsonl|summary\.json)\.(old|tmp)")


def unused(command: str) -> Path:
    """A folder of this second that is not there yet: runs/<command>-<date>-<time>, then with -2, -3, ... behind it."""
    now = Path("runs", f"{command}-{time.strftime('%Y%m%d-%H%M%S')}")
    names = (now if n == 1 else now.with_name(f"{now.name}-{n}") for n in itertools.count(1))
    return next(path for path in names if not path.exists())


class RunFolder:
    """A folder that one run writes. Of several ranks the first one writes; the others may ask for everything as well.

    Args:
        path: new or empty, unless a run goes on.
        resume: `--resume-from-checkpoint`; see `algos.claim` for what it makes of a folder that is not empty.

    Raises:
        ValueError: the folder may not be written.
    """

    def __init__(self, path: Path, *, resume: str | None = None) -> None:
        self.path = path
        self._writes = ranks.is_first()
        self.close: Callable[[], Any] = lambda: None
        """Let other processes write it."""
        if self._writes:
            self.close = weakref.finalize(self, os.close, claim(path, resume))
            self._mend()

    def _mend(self) -> None:
        """Undo what a killed process left half done: an old folder goes back where its successor never came."""
        own = [path for path in self.path.iterdir() if _LEFTOVER.fullmatch(path.name)]
        for old in own:
            if old.suffix == ".old" and not old.with_suffix("").exists():
                old.rename(old.with_suffix(""))
        for leftover in filter(Path.exists, own):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def set_aside(self, *names: str) -> Path | None:
        """Move what there is of these into earlier-1, -2, ..., beside the settings it was made with; None: nothing."""
        found = [path for name in names if (path := self.path / name).exists()]
        if not self._writes or not found:
            return None
        aside = next(p for n in itertools.count(1) if not (p := self.path / f"earlier-{n}").exists())
        aside.mkdir()
        shutil.copy2(self.path / "config.yaml", aside)
        for path in found:
            path.rename(aside / path.name)
        return aside

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """config.yaml: the resolved settings; `--config` reads it again."""
        self._write_whole("config.yaml", yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Append one step's metrics to metrics.jsonl."""
        if not self._writes:
            return
        path = self.path / "metrics.jsonl"
        with room_for(path, self.path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(metrics)) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All steps logged so far; a last line that a killed process left half written does not count."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def forget_after(self, step: int, *, logged: int) -> None:
        """Drop episodes of steps beyond `step` and metrics of those beyond `logged`: a resumed run makes them again."""
        if not self._writes:
            return
        kept = [line for line in self.metrics() if line["step"] <= logged]
        self._write_whole("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
        for path in (*self.path.glob("episodes/step-*.jsonl"), *self.path.glob("skipped/step-*.jsonl")):
            if int(path.stem.removeprefix("step-").partition("-")[0]) > step:
                path.unlink()

    def write_step(self, step: int, episodes: Sequence[Episode]) -> None:
        """Keep a training step's episodes."""
        self._write_episodes(f"episodes/step-{step:06d}", episodes)

    def write_skipped(self, step: int, update: int, episodes: Sequence[Episode]) -> Path:
        """Keep the episodes of an update that was left out; returns the file."""
        return self._write_episodes(f"skipped/step-{step:06d}-update-{update}", episodes)

    def write_evaluation(self, name: str, episodes: Sequence[Episode]) -> None:
        """Keep an evaluation's episodes, in the same format."""
        self._write_episodes(f"evaluation/{name}", episodes)

    def _write_episodes(self, name: str, episodes: Sequence[Episode]) -> Path:
        path = self.path / f"{name}.jsonl"
        if self._writes:
            with room_for(path, self.path):
                write_episodes(path, episodes)
        return path

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """summary.json."""
        self._write_whole("summary.json", json.dumps(dict(summary), indent=2) + "\n")

    def write_folder(self, name: str, fill: Callable[[Path], None]) -> Path:
        """A folder that appears whole or not at all: filled aside by all ranks, then renamed; the old one goes last.

        Raises:
            DiskFull: there was no room; the old folder still stands.
        """
        target, aside, old = (self.path / n for n in (name, f"{name}.tmp", f"{name}.old"))
        if self._writes:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
        ranks.wait()
        try:
            with room_for(target, self.path):
                fill(aside)
                ranks.wait()
                if self._writes:
                    _open_to_readers(aside)
                    _to_disk(aside)
        except Exception:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        if self._writes:
            if target.exists():
                target.rename(old)
            aside.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        ranks.wait()
        return target

    def write_checkpoint(self, step: int, fill: Callable[[Path], None], *, keep: int | None) -> Path:
        """checkpoint-STEP, then `latest`; then those beyond the last `keep` up to this step are removed.

        One of a later step, which a run has that went back to an earlier one, stays until the run comes there again.
        """
        path = self.write_folder(f"checkpoint-{step}", fill)
        self._write_whole("latest", path.name)
        until_now = [made for made in self.checkpoints() if step_of(made) <= step]
        for old in until_now[:-keep] if keep and self._writes else ():
            shutil.rmtree(old.rename(old.with_name(f"{old.name}.tmp")))  # half removed it must not count as whole
        return path

    def checkpoints(self) -> list[Path]:
        """All whole checkpoints, oldest first."""
        return checkpoints(self.path)

    def latest(self) -> Path | None:
        """The checkpoint to go on from, or None."""
        return latest_checkpoint(self.path)

    def _write_whole(self, name: str, text: str) -> None:
        """A file that appears whole or not at all. Raises DiskFull where there is no room for it."""
        if not self._writes:
            return
        aside = self.path / f"{name}.tmp"
        try:
            with room_for(self.path / name, self.path), aside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        aside.replace(self.path / name)


def _open_to_readers(folder: Path) -> None:
    """safetensors writes weights for their owner alone: give them the mode that the umask gives any other file."""
    os.umask(mask := os.umask(0))
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o666 & ~mask)


def _to_disk(folder: Path) -> None:
    """Make sure that what was written outlives the machine, before anything older is given up for it."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
