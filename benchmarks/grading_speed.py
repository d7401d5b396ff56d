"""Answers graded per second on MATH500: ours with two workers against math-verify alone, in the same run.

    REMA_DATA=folder/of/data/sets python -m benchmarks.grading_speed

Half of the answers are the gold as it stands, a fifth are right in another form, the rest are wrong. Both sides grade
the same answers in alternating rounds; the last line is a JSON object with `speedup`, answers per second and the times
of single answers in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rema_env.grading import load, pooled
from rema_env.grading.pool import Pool
from rema_env.transcript import Problem

Answer = tuple[Problem, str]


def main() -> None:
    """Measure, print a table, and as the last line one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default=os.environ.get("REMA_DATA"), help="folder with math500.parquet (default: $REMA_DATA)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if not args.data:
        parser.error("name the folder of math500.parquet: --data, or REMA_DATA in the environment")
    answers = mixed_answers(Path(args.data) / "math500.parquet")
    with Pool(workers=args.workers) as pool:
        result = measure(answers, pool, args.rounds)
    print(f"{'':24}{'answers/s':>12}{'p50 ms':>10}{'p99 ms':>10}")
    for side in ("ours", "math_verify"):
        row = [result[f"{side}_per_second"], result[f"{side}_p50_ms"], result[f"{side}_p99_ms"]]
        print(f"{side:24}{row[0]:12.0f}{row[1]:10.3f}{row[2]:10.2f}")
    print(json.dumps(result))


def mixed_answers(path: Path) -> list[Answer]:
    """Every gold of the set once: half as it stands, a fifth in another form, the rest wrong."""
    import pyarrow.parquet as pq

    golds = pq.read_table(path)["answer"].to_pylist()
    rng = random.Random(0)
    order = list(range(len(golds)))
    rng.shuffle(order)
    answers: list[Answer] = []
    for place, k in enumerate(order):
        share = place / len(order)
        said = golds[k] if share < 0.5 else other_form(golds[k]) if share < 0.7 else golds[rng.choice(order)]
        answers.append((Problem(str(k), "", golds[k]), f"Let me think. Thus the final answer is $\\boxed{{{said}}}$."))
    return answers


def other_form(gold: str) -> str:
    """The same value written in another way."""
    if re.fullmatch(r"-?\d+", gold):
        return f"\\frac{{{2 * int(gold)}}}{{2}}"
    if "\\frac" in gold:
        return gold.replace("\\frac", "\\dfrac")
    if "\\sqrt" in gold and "," not in gold and "\\pm" not in gold and "{1" not in gold:
        return f"\\frac{{2({gold})}}{{2}}"
    return gold.replace(" ", "") if "\\text" not in gold and "\\\\" not in gold and "\\ " not in gold else gold


def measure(answers: Sequence[Answer], pool: Pool, rounds: int) -> dict[str, float]:
    """Both sides in turn, `rounds` times; medians over the rounds."""
    ours, theirs = pooled(load("math"), pool=pool), math_verify_alone()
    ours(Problem("", "", r"\sqrt{8}"), r"\boxed{2\sqrt{2}}")  # workers running, as they are in training
    theirs(*answers[0])
    rates: dict[str, list[float]] = {"ours": [], "math_verify": []}
    times: dict[str, list[float]] = {"ours": [], "math_verify": []}
    agree = 0
    for _ in range(rounds):
        fresh_caches()
        start = time.perf_counter()
        scores = [grade.score for grade in ours.grade_all(answers)]
        rates["ours"].append(len(answers) / (time.perf_counter() - start))
        start = time.perf_counter()
        reference = [theirs(*answer) for answer in answers]
        rates["math_verify"].append(len(answers) / (time.perf_counter() - start))
        agree = sum(a == b for a, b in zip(scores, reference, strict=True))
        fresh_caches()
        times["ours"] += each(ours, answers)
        times["math_verify"] += each(theirs, answers)
    result = {f"{side}_per_second": round(statistics.median(rate), 1) for side, rate in rates.items()}
    for side, seconds in times.items():
        seconds.sort()
        result[f"{side}_p50_ms"] = round(1000 * seconds[len(seconds) // 2], 4)
        result[f"{side}_p99_ms"] = round(1000 * seconds[int(len(seconds) * 0.99)], 4)
    result["agreement"] = round(agree / len(answers), 4)
    result["speedup"] = round(
        statistics.median(a / b for a, b in zip(rates["ours"], rates["math_verify"], strict=True)), 2
    )
    return result


def each(grade: Callable[[Problem, str], object], answers: Sequence[Answer]) -> list[float]:
    """Seconds for each answer, one at a time."""
    seconds = []
    for problem, text in answers:
        start = time.perf_counter()
        grade(problem, text)
        seconds.append(time.perf_counter() - start)
    return seconds


def fresh_caches() -> None:
    """Nothing remembered from the round before."""
    from rema_env.grading.math import forget

    forget()


def math_verify_alone() -> Callable[[Problem, str], float]:
    """math-verify with default settings, as it is called without this package."""
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    from math_verify import parse, verify

    def grade(problem: Problem, text: str) -> float:
        return float(verify(parse(f"\\boxed{{{problem.answer}}}"), parse(text)))

    return grade


if __name__ == "__main__":
    main()
