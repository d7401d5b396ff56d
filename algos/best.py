"""The weights that scored highest: best/, which says itself of what step they are, what they scored, and on what.

A checkpoint is written before its step is evaluated, so what it says of best/ may be older than what lies there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from algos import ranks
from algos.checkpoint import save_weights
from algos.comparable import asked
from algos.evaluate import Scores
from algos.state import Run

SCORE = "score.json"


def keep_best(run: Run, scores: Mapping[str, Scores]) -> None:
    """Keep the weights in best/ where they score higher than all before, by the mean over evaluation sets."""
    if not scores:
        return
    score, step = float(np.mean([s.accuracy for s in scores.values()])), run.progress.step
    if score <= run.progress.best_score:
        return

    def fill(folder: Path) -> None:
        save_weights(run, folder)
        if ranks.is_first():
            (folder / SCORE).write_text(json.dumps({"step": step, "score": score, "asked": asked(run)}))

    run.folder.write_folder("best", fill)
    run.progress.best_score, run.progress.best_step = score, step


def take_up_best(run: Run) -> bool:
    """Have a run that goes on from a checkpoint know what best/ holds.

    Returns:
        Whether it goes on with it: not where there is none, nor where it was measured otherwise than is now, or holds
        the weights of a step that is still to come, which may become others. Then the best is chosen anew.
    """
    progress, held = run.progress, ranks.gather(_said(run.folder.path / "best" / SCORE))[0]  # asked of all together
    progress.best_step, progress.best_score = None, -1.0
    if held is None or held["step"] > progress.step or held["asked"] != asked(run):
        return False
    progress.best_step, progress.best_score = held["step"], held["score"]
    return True


def _said(file: Path) -> dict[str, Any] | None:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
