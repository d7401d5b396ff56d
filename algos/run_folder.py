"""The run on disk: config, metrics, episodes, checkpoints. What was paid for is never lost.

RUN/config.yaml  metrics.jsonl  summary.json  latest  tensorboard/
    episodes/step-000012.jsonl  skipped/...  evaluation/...
    checkpoint-40/policy/ (or one folder a role)  checkpoint-40/trainer/
    best/policy/  final/policy/
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from algos import ranks
from rema_agents.episodes import write_episodes
from rema_agents.types import Episode


def unused(command: str) -> Path:
    """A folder of this second that is not there yet: runs/<command>-<date>-<time>, then with -2, -3, ... behind it."""
    now = Path("runs", f"{command}-{time.strftime('%Y%m%d-%H%M%S')}")
    names = (now if n == 1 else now.with_name(f"{now.name}-{n}") for n in itertools.count(1))
    return next(path for path in names if not path.exists())


class DiskFull(OSError):
    """There was no room for a folder; what was begun is gone and whatever stood there before still stands."""


class RunFolder:
    """A folder that one run writes. Of several ranks the first one writes; the others may ask for everything as well.

    Args:
        path: new or empty, unless the run is resumed.
        resume: whether it is; only then may the folder hold a run already.

    Raises:
        ValueError: the folder holds something already and the run is not resumed.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = path
        self._writes = ranks.is_first()
        if path.exists() and not path.is_dir():
            raise ValueError(f"--output-dir {path} is a file")
        if not self._writes:
            return
        if path.is_dir() and any(path.iterdir()) and not resume:
            raise ValueError(
                f"--output-dir {path} is not empty: name a new folder, or go on with --resume-from-checkpoint latest"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / ".written").touch()
            (path / ".written").unlink()
        except OSError as error:
            raise ValueError(f"--output-dir {path} cannot be written: {error.strerror}") from None
        self._mend()

    def _mend(self) -> None:
        """Undo what a killed process left half done: an old folder goes back where its successor never came."""
        for old in self.path.glob("*.old"):
            if not old.with_suffix("").exists():
                old.rename(old.with_suffix(""))
        for leftover in (*self.path.glob("*.old"), *self.path.glob("*.tmp")):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """config.yaml: the resolved settings; `--config` reads it again."""
        self._write_whole("config.yaml", yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Append one step's metrics to metrics.jsonl."""
        if not self._writes:
            return
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
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
            fill(aside)
            ranks.wait()
            if self._writes:
                _open_to_readers(aside)
                _to_disk(aside)
        except Exception as error:
            full = no_room(error, self.path)
            shutil.rmtree(aside, ignore_errors=True)
            if full:
                raise DiskFull(errno.ENOSPC, f"No space left on the disk for {target}") from error
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
        until_now = [made for made in self.checkpoints() if _step(made) <= step]
        for old in until_now[:-keep] if keep and self._writes else ():
            shutil.rmtree(old.rename(old.with_name(f"{old.name}.tmp")))  # half removed it must not count as whole
        return path

    def checkpoints(self) -> list[Path]:
        """All whole checkpoints, oldest first."""
        return _checkpoints(self.path)

    def latest(self) -> Path | None:
        """The checkpoint to go on from, or None."""
        return latest_checkpoint(self.path)

    def _write_whole(self, name: str, text: str) -> None:
        """A file that appears whole or not at all."""
        if self._writes:
            aside = self.path / f"{name}.tmp"
            with aside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.path / name)


def latest_checkpoint(run: Path) -> Path | None:
    """The checkpoint that `latest` names, also where a process was killed while it was being replaced.

    Where `latest` is missing or names nothing, the newest that there is: a folder of that name is always whole.
    """
    pointer = run / "latest"
    name = pointer.read_text(encoding="utf-8", errors="replace").strip() if pointer.is_file() else ""
    for path in (run / name, run / f"{name}.old") if name else ():
        if path.is_dir():
            return path
    return max(_checkpoints(run), key=_step, default=None)


def _checkpoints(run: Path) -> list[Path]:
    found = (p for p in run.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit())
    return sorted(found, key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


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


def no_room(error: Exception, path: Path) -> bool:
    """Whether a full disk, or a limit on files, is behind an error; libraries tell of it in errors of their own."""
    told = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    in_words = any(words in str(error) for words in ("No space left", "File too large"))
    return told or in_words or shutil.disk_usage(path).free < 2**20
