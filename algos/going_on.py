"""Where a run starts: at the beginning, or at a checkpoint, its own or another run's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from algos import ranks
from algos.alarms import Alarms
from algos.best import take_up_best
from algos.checkpoint import load_checkpoint, read_progress
from algos.claim import LATEST
from algos.comparable import forget_what_no_longer_compares
from algos.config import TrainConfig
from algos.console import Console
from algos.run_folder import RECORDS, RESULT, RunFolder, unused
from algos.state import Run
from rema_agents.models import latest_checkpoint


def folder_of(config: TrainConfig, command: str) -> RunFolder:
    """The run's folder, the same for all ranks. Raises ValueError where it may not be written."""
    resume = config.run.resume_from_checkpoint
    if resume == LATEST and config.common.output_dir is None:
        raise ValueError("--resume-from-checkpoint latest needs --output-dir: the folder of the run that goes on")
    path = Path(config.common.output_dir or unused(command))
    return RunFolder(ranks.gather(path)[0], resume=resume)


def checkpoint_of(config: TrainConfig, folder: RunFolder) -> Path | None:
    """The checkpoint to go on from, None for the beginning. Raises ValueError for one that this run cannot take up."""
    resume = config.run.resume_from_checkpoint
    if resume is None:
        return None
    path = folder.latest() if resume == LATEST else Path(resume)
    if path is not None and not (path / "trainer").is_dir():
        path = latest_checkpoint(path) or path
    path = ranks.gather(path)[0]  # the first rank may just have mended the folder
    if path is not None:
        read_progress(path, config)
    return path


def take_up(run: Run, checkpoint: Path | None, console: Console) -> None:
    """Bring a run to where it starts. What its folder holds beyond that is set aside, or made again.

    Steps after the checkpoint are made again, so their records go; what is no longer this run's is kept in earlier-1/:
    the result of a run that goes on beyond it, best/ where it is of a later step or was measured otherwise, everything
    where there is no checkpoint to go on from.
    """
    folder = run.folder
    stale = set() if folder.latest() else set(RECORDS)
    if checkpoint is None:
        if run.config.run.resume_from_checkpoint:
            console.say(f"there is no checkpoint in {folder.path} yet: starting from the beginning")
    else:
        load_checkpoint(run, checkpoint)
        if goes_beyond_its_result(run):
            stale.update(RESULT)
        forget_what_no_longer_compares(run)
        if take_up_best(run):
            stale.discard("best")
        else:
            stale.add("best")
    aside = folder.set_aside(*stale)
    if aside is not None:
        console.say(f"what an earlier start left and this one does not go on from is in {aside}")
    if checkpoint is not None:
        folder.forget_after(run.progress.step, logged=run.progress.logged)
        run.alarms = Alarms(logged_until_now(run))
        console.say(f"resumed from {checkpoint}, after step {run.progress.step}")


def goes_beyond_its_result(run: Run) -> bool:
    """Whether weights will be others than those that the folder may hold as the run's result."""
    steps = max((line["step"] for line in run.folder.metrics()), default=0)
    return run.progress.step < run.config.run.max_steps or run.progress.step != steps


def logged_until_now(run: Run) -> list[dict[str, Any]]:
    """The metrics of all steps done, that of one whose evaluation is still to come included.

    The same on every rank, though the first one may still be writing the file anew without the steps to be made again.
    """
    steps = [line for line in run.folder.metrics() if line["step"] <= run.progress.logged]
    return steps if run.progress.unlogged is None else [*steps, run.progress.unlogged]
