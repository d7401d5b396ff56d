"""How well the algorithms learn: grpo, turn_ppo in both readings and reinforce_pp, shared and alternating, three seeds.

    python -m benchmarks.algorithms --output-dir FOLDER

Every run is a folder of its own; one whose summary is there is not run again, so the benchmark can be stopped and taken
up. At the end a Markdown table of held-out accuracy (mean and spread over seeds), whatever it shows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ALGORITHMS: Mapping[str, Sequence[str]] = {
    "grpo, token ratio": ("grpo",),
    "turn_ppo, geometric": ("turn_ppo",),
    "turn_ppo, arithmetic": ("turn_ppo", "--ratio", "turn_arithmetic"),
    "reinforce_pp": ("reinforce_pp",),
}
TEAMS: Mapping[str, Sequence[str]] = {
    "shared": ("--max-steps", "60"),
    "alternating": ("--team", "separate", "--train", "alternate:10", "--max-steps", "120"),
}


def summary_of(folder: Path, argv: Sequence[str], seed: int) -> dict[str, Any]:
    """The summary of one run, which is made where it is not there yet."""
    path = folder / "summary.json"
    if not path.is_file():
        module, *flags = argv
        run = [sys.executable, "-m", f"algos.{module}", "--env", "math_v0", "--seed", str(seed), *flags]
        go_on = ["--output-dir", str(folder), "--eval-steps", "0", "--save-steps", "20", "--save-total-limit", "1"]
        resume = ["--resume-from-checkpoint", "latest"] if folder.is_dir() else []
        print(" ".join(run[1:]), flush=True)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*run, *go_on, *resume], check=True, stdout=subprocess.DEVNULL, env=environment)
    return dict(json.loads(path.read_text()))


def table(results: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> str:
    """The results as Markdown: accuracy after training, mean and standard deviation over seeds."""
    lines = ["| algorithm | weights | seeds | before | after | greedy after |", "|---|---|---|---|---|---|"]
    for (algorithm, team), runs in results.items():
        cells = [
            spread([run[name] for run in runs])
            for name in ("accuracy_before", "accuracy_after", "accuracy_greedy_after")
        ]
        lines.append(f"| {algorithm} | {team} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation, e.g. `0.912 ± 0.013`."""
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output-dir", type=Path, default=Path("runs/algorithms"))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(argv)
    results = {}
    for algorithm, command in ALGORITHMS.items():
        for team, flags in TEAMS.items():
            name = f"{algorithm} {team}".replace(", ", "-").replace(" ", "-")
            results[algorithm, team] = [
                summary_of(args.output_dir / f"{name}-{seed}", (*command, *flags), seed) for seed in range(args.seeds)
            ]
    print(table(results))


if __name__ == "__main__":
    main()
