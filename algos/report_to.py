"""Where metrics go besides metrics.jsonl: tensorboard, Weights & Biases, trackio."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Reporters:
    """The trackers that `--report-to` names.

    Args:
        step: steps done when a run is resumed; what a tensorboard holds beyond it no longer counts.

    Raises:
        ValueError: one of them is not installed.
    """

    def __init__(self, names: Sequence[str], folder: Path, settings: Mapping[str, Any], *, step: int = 0) -> None:
        self._tensorboard: Any = None
        self._trackers: list[Any] = []
        for name in names:
            if name == "tensorboard":
                self._tensorboard = _module("torch.utils.tensorboard", "tensorboard").SummaryWriter(
                    folder / "tensorboard", purge_step=step + 1 if step else None
                )
            else:
                tracker = _module(name, name)
                tracker.init(project="rema", name=folder.name, config=dict(settings))
                self._trackers.append(tracker)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """One step's metrics."""
        if self._tensorboard is not None:
            for name, value in metrics.items():
                self._tensorboard.add_scalar(name, value, step)
        for tracker in self._trackers:
            tracker.log(dict(metrics), step=step)

    def close(self) -> None:
        """Write out what is pending."""
        if self._tensorboard is not None:
            self._tensorboard.close()
        for tracker in self._trackers:
            tracker.finish()


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"--report-to {package}: the package {package} is not installed") from error
