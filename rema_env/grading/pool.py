"""Worker processes that can be killed: every answer gets a grade within its time and memory limit.

Each worker is a plain subprocess (see `worker`) kept by one thread of this process, which starts it, hands it one answer
at a time, kills it when the answer exceeds its limits, and starts the next. Nothing is forked from a process that may
have threads or a GPU, nothing imports the caller's `__main__`, and a dead worker costs only the answer it held.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rema_env.grading.worker import LENGTH
from rema_env.transcript import Grade, Outcome, Problem, problem_to_json

log = logging.getLogger(__name__)

GIB = 1024**3
START_LIMIT = 120.0  # seconds for a worker to start and import its grader


@dataclass(frozen=True)
class Spec:
    """A grader by name, as it travels to a worker: what `grading.load` takes."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


class LoadError(ValueError):
    """A worker could not import the grader."""


class _Died(Exception):
    """The worker's pipe ended."""


class _Late(Exception):
    """The worker did not answer in time."""


class _Worker:
    """One subprocess and its pipes. Used by one thread only."""

    def __init__(self) -> None:
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rema_env.grading.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.sink, self.source = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.sink, False)
        os.set_blocking(self.source, False)
        self.loaded: Spec | None = None

    def load(self, spec: Spec, memory: int) -> None:
        """Have the worker import a grader; LoadError says why it could not."""
        request = {"load": {"name": spec.name, "options": dict(spec.options)}, "memory": memory}
        answer = self.ask(request, START_LIMIT)
        if "error" in answer:
            raise LoadError(f"the grader {spec.name!r} cannot be loaded in a worker: {answer['error']}")
        self.loaded = spec

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """The worker's answer within `limit` seconds; raises _Died or _Late."""
        deadline = time.monotonic() + limit
        body = json.dumps(request).encode()
        self._send(LENGTH.pack(len(body)) + body, deadline)
        (count,) = LENGTH.unpack(self._receive(LENGTH.size, deadline))
        answer: dict[str, Any] = json.loads(self._receive(count, deadline))
        return answer

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self.sink, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self.sink, rest) :]
            except BrokenPipeError:
                raise _Died from None

    def _receive(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            _wait(self.source, select.POLLIN, deadline)
            part = os.read(self.source, count - len(parts))
            if not part:
                raise _Died
            parts += part
        return bytes(parts)

    def kill(self) -> None:
        """End the worker, and whatever it started, at once."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _wait(handle: int, event: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(handle, event)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise _Late


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

    def __init__(self, *, workers: int = 2, time_limit: float = 5.0, memory_limit: int = GIB) -> None:
        if workers < 1:
            raise ValueError(f"a grading pool needs at least 1 worker, got {workers}")
        if time_limit <= 0 or memory_limit <= 0:
            raise ValueError(f"limits must be positive, got {time_limit} s and {memory_limit} bytes")
        self.time_limit, self.memory_limit, self.size = time_limit, memory_limit, workers
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._alive: dict[int, _Worker] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, spec: Spec, problem: Problem, text: str) -> Future[Grade]:
        """Grade one answer; `.result()` waits for it, `asyncio.wrap_future` awaits it."""
        job = _Job(spec, problem, text, Future())
        with self._lock:
            if self._closed:
                raise ValueError("the grading pool is closed")
            self._jobs.put(job)
            if not self._threads:
                self._start()
        return job.grade

    def grade_all(self, spec: Spec, answers: Iterable[tuple[Problem, str]]) -> Iterator[Grade]:
        """Grades in the order of the answers, never holding more than a window of them."""
        source = iter(answers)
        window = [self.submit(spec, *answer) for answer in islice(source, 64 * self.size)]
        for answer in source:
            yield window.pop(0).result()
            window.append(self.submit(spec, *answer))
        for grade in window:
            yield grade.result()

    def pids(self) -> list[int]:
        """Process ids of the workers alive now."""
        with self._lock:
            return [worker.process.pid for worker in self._alive.values()]

    def close(self) -> None:
        """Kill all workers; answers still waiting are named crashed. Returns when no worker is left."""
        with self._lock:
            self._closed = True
            workers, threads = list(self._alive.values()), list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        for worker in workers:
            try:
                os.killpg(worker.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for thread in threads:
            thread.join()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        for number in range(self.size):
            thread = threading.Thread(target=self._keep, args=(number,), name=f"grading-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _keep(self, number: int) -> None:
        """A thread's life: one worker after another, one answer after another."""
        worker: _Worker | None = None
        while (job := self._jobs.get()) is not None:
            if self._closed:
                job.grade.set_result(Grade(0.0, Outcome.CRASHED))
                continue
            if not job.grade.set_running_or_notify_cancel():
                continue
            try:
                worker = self._ready(number, worker, job.spec)
                result = self._ask(worker, job)
            except LoadError as error:
                job.grade.set_exception(error)
                continue
            except (_Died, _Late, OSError) as error:
                job.grade.set_exception(ValueError(f"a grading worker could not be started: {error!r}"))
                self._drop(number)
                worker = None
                continue
            if worker.loaded is None:
                self._drop(number)
                worker = None
            job.grade.set_result(result)
        self._drop(number)

    def _ready(self, number: int, worker: _Worker | None, spec: Spec) -> _Worker:
        """A live worker with the right grader: this one, or a new one."""
        if worker is not None and (worker.process.poll() is not None or worker.loaded is None):
            self._drop(number)
            worker = None
        if worker is None:
            worker = _Worker()
            with self._lock:
                self._alive[number] = worker
        if worker.loaded != spec:
            worker.load(spec, self.memory_limit)
        return worker

    def _ask(self, worker: _Worker, job: _Job) -> Grade:
        """The grade; a worker that must be replaced is left with nothing loaded."""
        try:
            answer = worker.ask({"problem": problem_to_json(job.problem), "text": job.text}, self.time_limit)
        except _Late:
            worker.loaded = None
            return Grade(0.0, Outcome.TIMED_OUT)
        except (_Died, OSError):
            worker.loaded = None
            return Grade(0.0, Outcome.CRASHED)
        if "failed" in answer:
            log.warning("grading %s: %s (%s)", job.problem.id, answer["failed"], answer["why"])
            if answer["failed"] == Outcome.OUT_OF_MEMORY:
                worker.loaded = None
            return Grade(0.0, Outcome(answer["failed"]))
        return Grade(answer["score"], Outcome(answer["outcome"]), answer["extracted"])

    def _drop(self, number: int) -> None:
        with self._lock:
            worker = self._alive.pop(number, None)
        if worker is not None:
            worker.kill()


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
    """In a forked child: the parent's workers are not ours."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_forget_shared)
