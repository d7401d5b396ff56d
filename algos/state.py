"""What a run holds on to: its parts, and what changes from step to step."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from algos.alarms import Alarms
from algos.algorithm import Algorithm
from algos.config import TrainConfig
from algos.console import Console
from algos.evaluate import Evaluation
from algos.report_to import Reporters
from algos.run_folder import RunFolder
from algos.schedule import Schedule
from algos.team import Team
from algos.world import World
from rema_env.transcript import Problem


@dataclass
class Progress:
    """What changes from step to step besides weights; goes into checkpoints.

    Attributes:
        step: steps done.
        problems: problems drawn.
        carry: policy -> the algorithm's state.
        train_seconds: spent in steps, evaluation and saving not counted.
        best_step, best_score: the evaluation whose weights are in best/.
        before: evaluation set -> accuracy sampled and greedy, before the first step; None until it is known.
        asked: evaluation set -> a digest of what those accuracies, and the best one, were measured on.
        unlogged: the metrics of a step whose evaluation is still to come.
        skipped_in_a_row: updates left out since the last one that was made.
        phase: with `--phase-problems`: the phase's first step, and the draws of its problems.
    """

    step: int = 0
    problems: int = 0
    carry: dict[str, Any] = field(default_factory=dict)
    train_seconds: float = 0.0
    best_step: int | None = None
    best_score: float = -1.0
    before: dict[str, list[float | None]] | None = None
    asked: dict[str, str] = field(default_factory=dict)
    unlogged: dict[str, Any] | None = None
    skipped_in_a_row: int = 0
    phase: dict[str, Any] | None = None

    @property
    def logged(self) -> int:
        """The last step whose metrics are in metrics.jsonl; the first evaluation is step 0, and before it: -1."""
        return -1 if self.before is None else self.step - (self.unlogged is not None)


class Clock:
    """Seconds by part of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Adds what happens within to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[f"time/{part}"] += time.perf_counter() - start


@dataclass
class Run:
    """Everything a run holds on to."""

    config: TrainConfig
    algorithm: Algorithm
    world: World
    evaluation: Evaluation
    team: Team
    folder: RunFolder
    console: Console
    sets: Mapping[str, Sequence[Problem]]
    reporters: Reporters = field(default_factory=Reporters)
    progress: Progress = field(default_factory=Progress)
    alarms: Alarms = field(default_factory=Alarms)

    @property
    def schedule(self) -> Schedule:
        """Who learns in which step."""
        return Schedule.parse(self.config.model.train, self.world.agents, first=self.config.model.first)
