"""What a person sees on the terminal while a run goes on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from textwrap import fill
from types import TracebackType

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from rema_agents.types import Episode
from rema_env.render import escaping, transcript_text


class Console:
    """Lines, a progress bar on a terminal, and dialogues that a person can read. Silent on all ranks but the first."""

    def __init__(self, *, quiet: bool = False) -> None:
        escaping(sys.stdout)  # a question with an umlaut must not end a run
        self._out = RichConsole(quiet=quiet, highlight=False, soft_wrap=True)
        count = (TextColumn("{task.description}"), MofNCompleteColumn(), BarColumn(20))
        times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[play]}"))
        self._bar = Progress(*count, *times, console=self._out, transient=True, disable=not self._out.is_terminal)
        self._task = self._bar.add_task("", visible=False, play="")

    def __enter__(self) -> Console:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """One line; on a terminal that is narrower, folded between its words."""
        self._out.print(self._folded(text), markup=False)

    def warn(self, text: str) -> None:
        """One line that stands out."""
        self._out.print(self._folded(f"warning: {text}"), style="yellow", markup=False)

    @property
    def _width(self) -> int | None:
        return self._out.width if self._out.is_terminal else None

    def _folded(self, text: str) -> str:
        if self._width is None:
            return text
        return fill(text, self._width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)

    def show(self, table: Table) -> None:
        """A table."""
        self._out.print(table)

    def progress(self, what: str, done: int, total: int) -> None:
        """Move the bar of what is counted; from 0 on it counts anew."""
        if not done:
            self._bar.reset(self._task)
        self._bar.update(self._task, description=what, completed=done, total=total, visible=True)

    def playing(self, over: int, of: int) -> None:
        """Tell beside the bar how many dialogues of a play (this rank's own) are over, until all are.

        A bar of its own would come and go, which leaves traces where a line is printed at the same moment.
        """
        self._bar.update(self._task, play=f"dialogues {over}/{of}" if over < of else "")

    def step(self, step: int, total: int, metrics: Mapping[str, float], *, show: bool) -> None:
        """Move the bar and, where `show`, print the step's line."""
        self.progress("steps", step, total)
        if show:
            self._out.print(step_line(step, total, metrics, self._width), markup=False)

    def dialogues(self, title: str, episodes: Sequence[Episode], count: int) -> None:
        """The first dialogues of different problems."""
        by_group = {episode.group: episode for episode in reversed(episodes)}
        for episode in list(reversed(by_group.values()))[:count]:
            text = transcript_text(episode.transcript, dict(episode.rewards)).rstrip()
            self._out.print(f"--- {title} ---\n{text}\n---", markup=False)


def hush_libraries() -> None:
    """No progress bars of model loading and saving between our own lines."""
    import transformers

    transformers.utils.logging.disable_progress_bar()


def step_line(step: int, total: int, metrics: Mapping[str, float], width: int | None = None) -> str:
    """One step in one line, what tells most first; where it may have `width` characters, as much as those can hold."""
    seconds = " ".join(f"{n.removeprefix('time/')} {v:.2f}" for n, v in metrics.items() if n.startswith("time/"))
    line = f"step {step}/{total}"
    for part in (
        f"reward {metrics['reward']:.3f}",
        f"accuracy {metrics['accuracy']:.3f}",
        f"finished {metrics['endings/finished']:.0%}",
        f"{metrics['step_time']:.2f} s",
        f"kept {metrics['sampling/kept']:.0%}" if "sampling/kept" in metrics else "",
        _each(metrics, "grad", "grad_norm", ".3f"),
        f"turns {metrics['turns/mean']:.1f}",
        _each(metrics, "tokens", "completions/mean_length", ".1f"),
        _each(metrics, "clip", "clip_ratio/region_mean", ".3f"),
        _each(metrics, "gap", "sampling/logp_gap_max", ".1e"),
        f"({seconds})",
    ):
        if part and (width is None or len(line) + 2 + len(part) <= width):
            line += f"  {part}"
    return line


def _each(metrics: Mapping[str, float], title: str, name: str, form: str) -> str:
    """A metric under its title, or, where roles or policies have one of their own, each of those under its owner."""
    owners = {key.removesuffix(name): value for key, value in metrics.items() if f"/{key}".endswith(f"/{name}")}
    if len(owners) > 1:
        owners.pop("", None)
    told = (f"{owner.removesuffix('/')} {value:{form}}".lstrip() for owner, value in owners.items())
    return " ".join((title, *told)) if owners else ""
