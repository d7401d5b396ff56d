"""Runs that are killed and taken up again, each in a fork of one process that has everything imported.

    python -m tests.algos.kill_worker FOLDER MOMENT...

A moment is a phase (play, update, publish, save, swap) in which the run kills itself with SIGKILL, or a number of
seconds after which it is killed from outside. FOLDER/straight is never killed; FOLDER/MOMENT is, and then resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

STEPS = 12
FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--num-completions-to-print", "0"]
FLAGS += ["--eval-num-problems", "8", "--eval-steps", "4", "--save-steps", "3", "--save-total-limit", "2"]
FLAGS += ["--max-steps", str(STEPS), "--lr-scheduler-type", "linear", "--logging-steps", "100"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in(phase: str) -> None:
    """Arrange for the process to kill itself in the middle of a phase, some steps after the start."""
    from algos import learner, run_folder, trainer
    from algos.collect import collect
    from rema_agents.hf import HFSampler

    def on_call(owner: Any, name: str, count: int, deadly: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        seen: list[None] = []

        def counted(*args: Any, **kwargs: Any) -> Any:
            seen.append(None)
            return (deadly if len(seen) == count else original)(*args, **kwargs)

        setattr(owner, name, counted)

    step = learner.Learner.step
    save_state, update_weights = learner.Learner.save_state, HFSampler.update_weights

    def in_play(*args: Any) -> Any:
        threading.Timer(0.03, die).start()
        return collect(*args)

    def in_update(self: Any) -> Any:
        step(self)
        die()

    def in_publish(self: Any, named_tensors: Any, version: int) -> None:
        few = [item for item, _ in zip(named_tensors, range(3), strict=False)]
        update_weights(self, few, version)
        die()

    def in_save(self: Any, folder: Path) -> None:
        save_state(self, folder)
        die()

    moments = {
        "play": lambda: on_call(trainer, "collect", 8, in_play),
        "update": lambda: on_call(learner.Learner, "step", 15, in_update),
        "publish": lambda: on_call(HFSampler, "update_weights", 5, in_publish),
        "save": lambda: on_call(learner.Learner, "save_state", 2, in_save),
        "swap": lambda: on_call(run_folder, "_to_disk", 5, lambda _: die()),
    }
    moments[phase]()


def train(folder: Path, phase: str | None) -> None:
    from algos.grpo import main

    torch.set_num_threads(1)
    if phase is not None:
        die_in(phase)
    main([*FLAGS, "--output-dir", str(folder), "--resume-from-checkpoint", "latest"])


def forked(folder: Path, phase: str | None = None, *, seconds: float | None = None) -> int | None:
    """Train in a fork; its exit code, negative for the signal that ended it."""
    child = multiprocessing.get_context("fork").Process(target=train, args=(folder, phase))
    child.start()
    child.join(seconds)
    if child.is_alive():
        child.kill()
        child.join()
    return child.exitcode


def main() -> None:
    import algos.grpo
    import algos.launch
    import algos.learner  # noqa: F401
    from algos.learner import start_deepspeed  # noqa: F401

    folder = Path(sys.argv[1])
    start = time.monotonic()
    assert forked(folder / "straight") == 0
    whole = time.monotonic() - start
    for moment in sys.argv[2:]:
        is_phase = moment.isalpha()
        code = forked(
            folder / moment, moment if is_phase else None, seconds=None if is_phase else float(moment) * whole
        )
        assert code == -signal.SIGKILL or (code == 0 and not is_phase), (moment, code)
        assert forked(folder / moment) == 0, moment


if __name__ == "__main__":
    main()
