"""Whether a command may write a folder: decided once, before anything in it is touched.

| the folder holds | a new run | `latest` goes on | a checkpoint goes on |
|---|---|---|---|
| nothing, or is not there | starts | starts | starts from it: a branch of its run |
| a run with checkpoints | refused | goes on | goes on where the checkpoint is the run's own |
| one that stopped before its first | refused | starts again where it started | the same, from where it started alone |
| one that has ended without any | refused | refused | refused |
| something else | refused | refused | refused |

A living process keeps every other one out.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from algos.disk_full import room_for

LOCK = ".lock"
LATEST = "latest"
ORIGIN = "resume_from_checkpoint"
"""A setting that the config.yaml of every training run has, and no other."""


def claim(path: Path, resume: str | None = None) -> int:
    """Take a folder for this process, until it ends or closes the file descriptor that is returned.

    Args:
        path: made where it is not there.
        resume: None for something new, `latest`, or a checkpoint (or a run) to go on from.

    Raises:
        ValueError: it may not be written.
        DiskFull: there is no room.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"--output-dir {path} is a file")
    if (why := refusal(path, resume)) is not None:
        raise ValueError(f"--output-dir {path} {why}")
    return _locked(path)


def refusal(path: Path, resume: str | None) -> str | None:
    """Why a folder may not be written; None where it may."""
    if not path.is_dir() or {file.name for file in path.iterdir()} <= {LOCK, "config.yaml.tmp"}:
        return None
    settings, has_checkpoint = settings_of(path), _has_checkpoint(path)
    if resume is None and settings is None:
        return "is not empty: name a new folder"
    if resume is None:
        return "holds a run already: name a new folder; training goes on in it with --resume-from-checkpoint latest"
    if settings is None:
        return "holds something else than a run to go on with (there is no config.yaml of one): name a new folder"
    if not has_checkpoint and (path / "final").is_dir():
        return (
            "holds a run that is over and left no checkpoint to go on from: start from its weights in a new folder, "
            f"with --model-name-or-path {path}"
        )
    origin = None if has_checkpoint else settings[ORIGIN]
    if resume == LATEST:
        if origin in (None, LATEST):
            return None
        return f"started from {origin} and has no checkpoint yet: go on with --resume-from-checkpoint {origin}"
    where = Path(resume).resolve()
    if path.resolve() in (where, where.parent) or (origin and where == Path(origin).resolve()):
        return None
    return f"holds another run than that of {resume}: name a new folder, or go on with --resume-from-checkpoint latest"


def settings_of(path: Path) -> Mapping[str, Any] | None:
    """The config.yaml of a training run; None where a folder has no such."""
    try:
        settings = yaml.safe_load((path / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return settings if isinstance(settings, dict) and ORIGIN in settings else None


def _has_checkpoint(path: Path) -> bool:
    """Whether there is one, also where a process was killed while it was being replaced."""
    return any(folder.is_dir() and folder.suffix != ".tmp" for folder in path.glob("checkpoint-*"))


def _locked(path: Path) -> int:
    """A lock of POSIX: it ends with its process, however that ends, and children do not inherit it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ValueError(f"--output-dir {path} cannot be written: {error.strerror}") from None
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        holder = os.pread(lock, 1000, 0).decode() or "another process"
        os.close(lock)
        raise ValueError(f"--output-dir {path} is in use by {holder}: wait for its end, or name another") from None
    except OSError:  # a file system without locks: nobody can be kept out
        return lock
    with room_for(path / LOCK, path):
        os.truncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
    return lock
