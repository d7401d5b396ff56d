"""Signs of collapse: signals that a healthy run keeps within a band, and the first of them to leave it.

Each signal is compared with its own start (the median of the first `EARLY` steps) or with its best so far. Everything
is a pure function of the metrics logged so far, so a resumed run sees what the straight one saw.

    reward       below half its best so far (with dynamic sampling that of all groups played, too)
    finished     below half its start
    turns        half or double the start's mean number of turns
    empty, repeated       more than FEW of a role's messages, and twice the start
    entropy      below a hundredth or above three times the start (estimated by the sampled tokens)
    grad_norm    ten times the median so far
    grading      crashed, timed out or out of memory in more than FEW of the episodes
    clip_ratio   above 0.5: an update goes far beyond the clip range
    logp_gap     a mean sampler-learner gap above 0.1 nats: they are no longer the same policy
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

EARLY = 5
FEW = 0.2
MEAN_GAP, MOST_BY_ROUNDING = 0.1, 1.0
"""Between sampler and learner [nats]: of a step's tokens on average; of any token, where both compute in float32."""

Series = Sequence[float]


def below_half_its_best(series: Series) -> bool:
    """The last value is under half of the largest before it, where that was above 0."""
    return len(series) > 1 and series[-1] < max(series[:-1]) / 2 and max(series[:-1]) > 0


def below_half_its_start(series: Series) -> bool:
    """The last value is under half the median of the start."""
    return len(series) > EARLY and series[-1] < median(series[:EARLY]) / 2


def far_from_its_start(series: Series, low: float = 0.5, high: float = 2.0) -> bool:
    """The last value is outside [low, high] times the median of the start."""
    start = median(series[:EARLY])
    return len(series) > EARLY and not low * start <= series[-1] <= high * start


def many_and_twice_its_start(series: Series) -> bool:
    """The last value is a share above FEW, and more than twice the median of the start."""
    return len(series) > EARLY and series[-1] > max(FEW, 2 * median(series[:EARLY]))


def ten_times_its_median(series: Series) -> bool:
    """The last value is above ten times the median of all before."""
    return len(series) > EARLY and series[-1] > 10 * median(series[:-1]) > 0


def above(limit: float) -> Callable[[Series], bool]:
    """A rule: the last value is above a limit."""
    return lambda series: series[-1] > limit


# The end of a metric's name (so of every role's and policy's) -> the signal's name and its rule.
SIGNALS: Mapping[str, tuple[str, Callable[[Series], bool]]] = {
    "sampling/logp_gap_mean": ("logp_gap", above(MEAN_GAP)),
    "grad_norm": ("grad_norm", ten_times_its_median),
    "clip_ratio/region_mean": ("clip_ratio", above(0.5)),
    "entropy": ("entropy", lambda series: far_from_its_start(series, 0.01, 3.0)),
    "empty_ratio": ("empty", many_and_twice_its_start),
    "repeated_ratio": ("repeated", many_and_twice_its_start),
    "turns/mean": ("turns", far_from_its_start),
    "endings/finished": ("finished", below_half_its_start),
    "grading/crashed": ("grading", above(FEW)),
    "grading/timed_out": ("grading", above(FEW)),
    "grading/out_of_memory": ("grading", above(FEW)),
}
ALARM = "alarm/"
COLLAPSE = ("reward", "sampling/reward")
"""The signals that are the collapse itself; the others may tell of it before."""


@dataclass(frozen=True)
class Moved:
    """A signal that left its band.

    Attributes:
        signal: the metric's name, e.g. `meta/empty_ratio`.
        step: when.
        value: its value then.
    """

    signal: str
    step: int
    value: float


def apart_at_first(gap: Mapping[str, float], *, bf16: bool) -> str | None:
    """One sentence where sampler and learner are apart in the first step, in which both have the weights of the start.

    Rounding in float32 moves no token by `MOST_BY_ROUNDING`; in 16 bits it may move a rare one, never all of them.

    Args:
        gap: as `algos.metrics.logp_gap`.
    """
    most, mean = gap["sampling/logp_gap_max"], gap["sampling/logp_gap_mean"]
    if (mean <= MEAN_GAP) if bf16 else (most <= MOST_BY_ROUNDING):
        return None
    return (
        f"the sampler does not play the model that learns: in step 1, before any update, their log-probabilities are "
        f"{mean:.2g} nats apart on average and {most:.2g} at most, which is no rounding: see that both read one folder"
    )


def moved(history: Sequence[Mapping[str, float]]) -> list[Moved]:
    """The signals that are outside their bands in the last step of a run's metrics."""
    last = history[-1]
    found = []
    for name in last:
        rule = below_half_its_best if name in COLLAPSE else _rule(name)
        series = [line[name] for line in history if name in line]
        if rule is not None and all(map(math.isfinite, series)) and rule(series):
            found.append(Moved(name, int(last["step"]), float(last[name])))
    return found


def _rule(name: str) -> Callable[[Series], bool] | None:
    if name.startswith(ALARM):  # a stored line holds them beside the signals that they are of
        return None
    for ending, (_, rule) in SIGNALS.items():
        if name == ending or name.endswith(f"/{ending}"):
            return rule
    return None


class Alarms:
    """The alarms of a run, step by step.

    Args:
        history: the metrics of steps done before, where a run is resumed.

    Attributes:
        first: the first signal that left its band, if any has.
        now: those outside their bands after the last step.
        news: those of them that had never been before.
    """

    def __init__(self, history: Sequence[Mapping[str, float]] = ()) -> None:
        self._history: list[Mapping[str, float]] = []
        self.first: Moved | None = None
        self.now: list[Moved] = []
        self.news: list[Moved] = []
        self._known: set[str] = set()
        for line in history:
            self.look(line)

    def look(self, metrics: Mapping[str, float]) -> list[Moved]:
        """What is outside its band after a step. The collapse is said last, so that what led to it comes first."""
        self._history.append(metrics)
        self.now = sorted(moved(self._history), key=lambda m: m.signal in COLLAPSE)
        self.news = [m for m in self.now if m.signal not in self._known]
        self._known |= {m.signal for m in self.news}
        if self.now and self.first is None:
            self.first = self.now[0]
        return self.now

    def said(self) -> str:
        """One line about what is outside its band, and what moved first."""
        assert self.first is not None
        now = ", ".join(f"{m.signal} at {m.value:.3g}" for m in self.now)
        first = f"the first signal to move was {self.first.signal} in step {self.first.step}"
        return f"alarm after step {self.now[0].step}: {now}; {first}"


def alarm_metrics(found: Sequence[Moved]) -> dict[str, float]:
    """`alarm/<signal>`: 1 where a signal is outside its band."""
    return {ALARM + m.signal: 1.0 for m in found}
