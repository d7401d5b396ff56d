"""Where metrics go besides metrics.jsonl: tensorboard, Weights & Biases, trackio."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Reporters:
    """The trackers that `--report-to` names.

    Args:
        first: the first step that is to come; what a tensorboard holds from there on no longer counts.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        folder: Path = Path(),
        settings: Mapping[str, Any] | None = None,
        first: int = 0,
    ) -> None:
        self._tensorboard: Any = None
        self._trackers: list[Any] = []
        for name in names:
            if name == "tensorboard":
                self._tensorboard = importlib.import_module("torch.utils.tensorboard").SummaryWriter(
                    folder / "tensorboard", purge_step=first
                )
            else:
                tracker = importlib.import_module(name)
                tracker.init(project="rema", name=folder.name, config=dict(settings or {}))
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


def check_installed(names: Sequence[str]) -> None:
    """Raises ValueError for a tracker that is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise ValueError(f"--report-to {name}: the package {name} is not installed: pip install {name}")
