"""What a person sees on the terminal while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rema_agents.types import Episode
from rema_env.render import transcript_text


class Console:
    """Lines, a progress bar on a terminal, and dialogues that a person can read. Silent on all ranks but the first."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._out = RichConsole(quiet=quiet, highlight=False, soft_wrap=True)
        columns = (TextColumn("step"), MofNCompleteColumn(), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._out, transient=True, disable=not self._out.is_terminal)
        self._task = self._bar.add_task("train", total=None)

    def __enter__(self) -> Console:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """One line."""
        self._out.print(text, markup=False)

    def warn(self, text: str) -> None:
        """One line that stands out."""
        self._out.print(f"warning: {text}", style="yellow", markup=False)

    def step(self, step: int, total: int, metrics: Mapping[str, float], *, show: bool) -> None:
        """Move the bar and, where `show`, print the step's line."""
        self._bar.update(self._task, completed=step, total=total)
        if show:
            self.say(step_line(step, total, metrics))

    def dialogues(self, title: str, episodes: Sequence[Episode], count: int) -> None:
        """The first dialogues of different problems."""
        by_group = {episode.group: episode for episode in reversed(episodes)}
        for episode in list(reversed(by_group.values()))[:count]:
            self.say(f"--- {title} ---")
            self.say(transcript_text(episode.transcript, dict(episode.rewards)).rstrip())
            self.say("---")


def hush_libraries() -> None:
    """No progress bars of model loading and saving between our own lines."""
    import transformers

    transformers.utils.logging.disable_progress_bar()


def step_line(step: int, total: int, metrics: Mapping[str, float]) -> str:
    """One step in one line: reward, lengths, endings, gradient, sampler against learner, seconds."""
    parts = " ".join(f"{n.removeprefix('time/')} {v:.2f}" for n, v in metrics.items() if n.startswith("time/"))
    return (
        f"step {step}/{total}  reward {metrics['reward']:.3f}  accuracy {metrics['accuracy']:.3f}  "
        f"finished {metrics['endings/finished']:.0%}  tokens: {_each(metrics, 'completions/mean_length', '.1f')}  "
        f"turns {metrics['turns/mean']:.1f}  grad {_each(metrics, 'grad_norm', '.3f')}  "
        f"clip {_each(metrics, 'clip_ratio/region_mean', '.3f')}  "
        f"gap {_each(metrics, 'sampling/logp_gap_max', '.1e')}  {metrics['step_time']:.2f} s ({parts})"
    )


def _each(metrics: Mapping[str, float], name: str, form: str) -> str:
    """A metric, or, where roles or policies have one of their own, each of those under its owner; else a dash."""
    owners = {key.removesuffix(name): value for key, value in metrics.items() if f"/{key}".endswith(f"/{name}")}
    if len(owners) > 1:
        owners.pop("", None)
    return " ".join(f"{owner.removesuffix('/')} {value:{form}}".lstrip() for owner, value in owners.items()) or "-"
