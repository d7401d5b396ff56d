"""Grade anyone's outputs: `python -m rema_env.grading FILE.jsonl` (`-` reads standard input).

Each input line is a JSON object with the fields id, answer and response. Each output line is one with id, score and
outcome, in the same order; the summary and a progress bar go to standard error. Exit code: 0 where every row was
graded, 1 where some could not be (each is reported with its line number), 2 where the command itself was wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

from rema_env.grading import BUILT_IN, Pooled, load, pooled
from rema_env.grading.pool import GIB, Pool
from rema_env.transcript import Grade, Problem


@dataclass(frozen=True)
class Row:
    """One line of input, ready to grade."""

    id: Any
    problem: Problem
    response: str


class BadRow(ValueError):
    """A line that cannot be graded, and why."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    args = _parser().parse_args(argv)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 it stays open; the caller closed it and wants no word
    try:
        if sys.stdout is None or (args.file == "-" and sys.stdin is None):
            raise ValueError("standard output, and standard input for -, must be open")
        grader = load(args.grader, **({} if args.rtol is None else {"rtol": args.rtol}))
        with ExitStack() as stack:
            source = sys.stdin.buffer if args.file == "-" else stack.enter_context(open(args.file, "rb"))
            pool = stack.enter_context(
                Pool(workers=args.workers, time_limit=args.time_limit, memory_limit=args.memory_limit * GIB)
            )
            return _run(args, source, pooled(grader, pool=pool), stack)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has left: nothing more to say
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rema_env.grading",
        description="Grade the answers in a JSON Lines file; write one JSON line for each.",
    )
    parser.add_argument("file", metavar="FILE.jsonl", help="rows to grade; - reads standard input")
    parser.add_argument(
        "--grader", default="math", help=f"{', '.join(BUILT_IN)}, or package.module:function (default math)"
    )
    parser.add_argument(
        "--rtol", type=float, help="math: relative tolerance for golden answers that are measured values"
    )
    for column in ("id", "answer", "response"):
        parser.add_argument(
            f"--{column}-column", default=column, metavar="NAME", help=f"where the {column} is (default {column})"
        )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="worker processes (default 2)")
    parser.add_argument("--time-limit", type=float, default=5.0, metavar="SECONDS", help="for one answer (default 5)")
    parser.add_argument("--memory-limit", type=float, default=1.0, metavar="GIB", help="for one answer (default 1)")
    return parser


def _run(args: argparse.Namespace, source: BinaryIO, grade: Pooled, stack: ExitStack) -> int:
    outcomes: Counter[str] = Counter()
    total, bad = 0.0, 0
    advance = stack.enter_context(_Progress(source))

    def rows() -> Iterator[Row]:
        nonlocal bad
        for number, line in enumerate(source, 1):
            advance(len(line))
            try:
                row = _row(line, number, args, grade)
            except BadRow as error:
                bad += 1
                print(f"line {number}: {error}", file=sys.stderr)
                continue
            if row is not None:
                yield row

    ids: deque[Any] = deque()

    def answers() -> Iterator[tuple[Problem, str]]:
        for row in rows():
            ids.append(row.id)
            yield row.problem, row.response

    for result in grade.grade_all(answers()):
        sys.stdout.write(_line(ids.popleft(), result))
        outcomes[result.outcome] += 1
        total += result.score
    sys.stdout.flush()
    advance.close()
    _summarise(outcomes, total, bad)
    return 1 if bad else 0


def _row(line: bytes, number: int, args: argparse.Namespace, grade: Pooled) -> Row | None:
    """The row on that line, None where the line is blank. Raises BadRow."""
    if not line.strip():
        return None
    try:
        # a byte order mark is what some editors begin a file with
        fields = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise BadRow(f"not UTF-8 ({error.reason} at byte {error.start})") from None
    except (ValueError, RecursionError) as error:
        raise BadRow(f"not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise BadRow(f"a JSON object is expected, this is a {type(fields).__name__}")
    answer, response = _text(fields, args.answer_column, number=True), _text(fields, args.response_column)
    fault = getattr(grade.grade, "gold_fault", lambda _: None)(answer)
    if fault:
        raise BadRow(f"the golden answer {answer[:80]!r} cannot be used: {fault}")
    name = fields.get(args.id_column, number)
    return Row(name, Problem(str(name), "", answer, source=str(args.file)), response)


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _text(fields: dict[str, Any], column: str, number: bool = False) -> str:
    if column not in fields:
        raise BadRow(f"no field {column!r}; it has {', '.join(map(repr, fields)) or 'none'}")
    found = fields[column]
    if number and isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < math.inf:
        return str(found)
    if not isinstance(found, str):
        raise BadRow(f"the field {column!r} must be text, it is {json.dumps(found)[:80]}")
    return found


def _line(name: Any, grade: Grade) -> str:
    return json.dumps({"id": name, "score": grade.score, "outcome": str(grade.outcome)}) + "\n"


def _summarise(outcomes: Counter[str], total: float, bad: int) -> None:
    count = sum(outcomes.values())
    mean = f", mean score {total / count:.4f}" if count else ""
    named = "".join(f", {name} {number}" for name, number in outcomes.most_common())
    print(f"{count} graded{mean}{named}" + (f"; {bad} bad rows not graded" if bad else ""), file=sys.stderr)


class _Progress:
    """A progress bar on standard error, by bytes read; nothing where standard error is no terminal."""

    def __init__(self, source: BinaryIO) -> None:
        self._bar: Any = None
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import Progress

        size = os.fstat(source.fileno()).st_size if source.seekable() else None
        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("grading", total=size)
        self._bar.start()

    def __call__(self, read: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._task, read)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    sys.exit(main())
