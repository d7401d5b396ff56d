"""One worker process as its parent sees it: started, asked with a deadline, killed. Used by one thread only."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rema_env.grading.worker import LENGTH

START_LIMIT = 120.0  # seconds for a worker to start and import its grader


@dataclass(frozen=True)
class Spec:
    """A grader by name, as it travels to a worker: what `grading.load` takes."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


class LoadError(ValueError):
    """A worker could not import the grader."""


class Died(Exception):
    """The worker's pipe ended. `unasked`: before it had the whole question."""

    def __init__(self, unasked: bool) -> None:
        super().__init__("the worker ended")
        self.unasked = unasked


class Late(Exception):
    """The worker did not answer in time."""


class Child:
    """A worker and its pipes.

    The worker leads a process group of its own: Ctrl-C at the terminal does not reach it, and killing it kills whatever
    its grader started. The kernel kills it when the thread that made it ends (Linux).
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rema_env.grading.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_import_path()), "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._sink, self._source = self.process.stdin, self.process.stdout
        for pipe in (self._sink, self._source):
            os.set_blocking(pipe.fileno(), False)
        self.loaded: Spec | None = None

    def load(self, spec: Spec, memory: int) -> None:
        """Have the worker import a grader, then limit its memory [B]. Raises LoadError, Died or Late."""
        load = {"name": spec.name, "options": dict(spec.options), "path": _import_path()}
        answer = self.ask({"load": load, "memory": memory}, START_LIMIT)
        if "error" in answer:
            raise LoadError(f"the grader {spec.name!r} cannot be loaded in a worker: {answer['error']}")
        self.loaded = spec

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """The worker's answer within `limit` seconds. Raises Died or Late."""
        deadline = time.monotonic() + limit
        body = json.dumps(request).encode()
        self._send(LENGTH.pack(len(body)) + body, deadline)
        (count,) = LENGTH.unpack(self._receive(LENGTH.size, deadline))
        answer: dict[str, Any] = json.loads(self._receive(count, deadline))
        return answer

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the worker, and whatever it started, at once; returns when it is gone."""
        if self.alive():
            self.signal_group()
        self.process.wait()
        self._sink.close()
        self._source.close()

    def signal_group(self) -> None:
        """SIGKILL to the worker's process group; may be called from any thread."""
        with suppress(ProcessLookupError, PermissionError):  # gone already
            os.killpg(self.process.pid, signal.SIGKILL)

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._sink.fileno(), select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._sink.fileno(), rest) :]
            except BrokenPipeError:
                raise Died(unasked=True) from None

    def _receive(self, count: int, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            _wait(self._source.fileno(), select.POLLIN, deadline)
            part = os.read(self._source.fileno(), count - len(parts))
            if not part:
                raise Died(unasked=False)
            parts += part
        return bytes(parts)


def _wait(handle: int, event: int, deadline: float) -> None:
    poller = select.poll()
    poller.register(handle, event)
    if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise Late


def _import_path() -> list[str]:
    """Where this process imports from, so that a worker finds the same modules."""
    return [os.path.abspath(entry) for entry in sys.path]
