"""Worker processes that can be killed: every answer gets a grade within its time and memory limit.

Each worker is a plain subprocess (see `worker`) kept by one thread of this process, which starts it, hands it one
answer at a time, kills it when the answer exceeds its limits, and starts the next. Nothing is forked from a process
that may have threads or a GPU, nothing imports the caller's `__main__`, and a dead worker costs only what it held.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from rema_env.grading.child import Child, Died, Late, LoadError, Spec
from rema_env.transcript import Grade, Outcome, Problem, problem_to_json

__all__ = ["GIB", "LoadError", "Pool", "Spec", "shared"]

log = logging.getLogger(__name__)

GIB = 1024**3
_TRIES = 3  # workers started for one answer before the fault is taken to be in the installation


@dataclass(frozen=True)
class _Job:
    spec: Spec
    problem: Problem
    text: str
    grade: Future[Grade]


class Pool:
    """A few workers that grade answers; started at the first answer, usable from any thread and from asyncio.

    Args:
        workers: processes, at least 1.
        time_limit: seconds for one answer; beyond it the worker is killed and the outcome is `timed_out`.
        memory_limit: bytes one answer may take beyond what the loaded grader needs; beyond it, `out_of_memory`.
    """

    def __init__(self, *, workers: int = 2, time_limit: float = 5.0, memory_limit: float = GIB) -> None:
        if workers < 1:
            raise ValueError(f"a grading pool needs at least 1 worker, got {workers}")
        if not 0 < time_limit < math.inf or not 0 < memory_limit < math.inf:
            raise ValueError(f"limits must be positive and finite, got {time_limit} s and {memory_limit} bytes")
        self.time_limit, self.memory_limit, self.workers = time_limit, int(memory_limit), workers
        self._begin()

    def _begin(self) -> None:
        """Empty books: at first, and again in a forked child, where neither threads nor workers are ours."""
        self._owner = os.getpid()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._children: dict[int, Child] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._proven = False  # whether a worker ever started, so that the installation is not what is at fault

    def submit(self, spec: Spec, problem: Problem, text: str) -> Future[Grade]:
        """Grade one answer; `.result()` waits for it, `asyncio.wrap_future` awaits it.

        The result raises LoadError where a worker cannot import the grader. Raises ValueError on a closed pool.
        """
        if self._owner != os.getpid():
            self._begin()
        job = _Job(spec, problem, str(text), Future())
        with self._lock:
            if self._closed:
                raise ValueError("the grading pool is closed")
            self._jobs.put(job)
            if not self._threads:
                self._start()
        return job.grade

    def pids(self) -> list[int]:
        """Process ids of the workers alive now."""
        with self._lock:
            return [child.process.pid for child in self._children.values() if child.alive()]

    def close(self) -> None:
        """Kill all workers; answers still waiting are named crashed. Returns when no worker is left."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self._closed = True
            children, threads = list(self._children.values()), list(self._threads)
        for child in children:
            child.signal_group()
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        for number in range(self.workers):
            thread = threading.Thread(target=self._keep, args=(number,), name=f"grading-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _keep(self, number: int) -> None:
        """A thread's life: one answer after another, one worker after another."""
        while (job := self._jobs.get()) is not None:
            if job.grade.set_running_or_notify_cancel():
                try:
                    job.grade.set_result(self._grade(number, job))
                except Exception as error:  # the thread lives on; whoever waits for the answer is told
                    self._drop(number)
                    job.grade.set_exception(error)
        self._drop(number)

    def _grade(self, number: int, job: _Job) -> Grade:
        """The grade of one answer. A worker that dies before it has the question is replaced and asked again."""
        request = {"problem": problem_to_json(job.problem), "text": job.text}
        for _ in range(_TRIES):
            if self._closed:
                return Grade(0.0, Outcome.CRASHED)
            try:
                child = self._ready(number, job.spec)
                return self._reported(number, job, child.ask(request, self.time_limit))
            except Late:
                self._drop(number)
                return Grade(0.0, Outcome.TIMED_OUT)
            except Died as death:
                self._drop(number)
                if not death.unasked:
                    log.warning("grading the answer to problem %s: the worker died of it", job.problem.id)
                    return Grade(0.0, Outcome.CRASHED)
        if self._closed or self._proven:
            return Grade(0.0, Outcome.CRASHED)
        raise RuntimeError(f"a grading worker did not start, {_TRIES} times; its own words are on standard error")

    def _reported(self, number: int, job: _Job, answer: dict[str, Any]) -> Grade:
        """The worker's report as a grade; one that ran out of memory is not used again."""
        if "failed" not in answer:
            return Grade(answer["score"], Outcome(answer["outcome"]), answer["extracted"])
        log.warning("grading the answer to problem %s: %s", job.problem.id, answer["why"])
        if answer["failed"] == Outcome.OUT_OF_MEMORY:
            self._drop(number)
        return Grade(0.0, Outcome(answer["failed"]))

    def _ready(self, number: int, spec: Spec) -> Child:
        """A live worker that has the grader loaded: the one at hand, or a new one."""
        child = self._children.get(number)
        if child is None or not child.alive():
            self._drop(number)
            child = Child()
            with self._lock:
                self._children[number] = child
        if self._closed:
            child.signal_group()
        if child.loaded != spec:
            try:
                child.load(spec, self.memory_limit)
            except (Died, Late):
                raise Died(unasked=True) from None
            self._proven = True
        return child

    def _drop(self, number: int) -> None:
        with self._lock:
            child = self._children.pop(number, None)
        if child is not None:
            child.kill()


_shared: Pool | None = None
_shared_lock = threading.Lock()


def shared() -> Pool:
    """The pool of this process, made at the first call and closed when the process ends."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Pool()
        return _shared


def _close_shared() -> None:
    if _shared is not None:
        _shared.close()


def _forget_shared() -> None:
    """In a forked child: the parent's pool, and its lock as it happened to be, are not ours."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_forget_shared)
