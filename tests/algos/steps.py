"""What a run's steps left in metrics.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def steps_of(run: Path) -> list[dict[str, Any]]:
    """The metrics of every step that was trained; the evaluation before the first one, step 0, is no such step."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["step"] > 0]
