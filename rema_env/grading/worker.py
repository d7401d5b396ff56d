"""The process that grades what may hang, blow up or die: one answer at a time, over a pair of pipes.

The parent (`pool`) starts it as a plain subprocess, so nothing of the parent's memory, threads or `__main__` is in it.
Every message is a frame: four bytes of length (big endian), then JSON. The parent writes `{"load": spec, "memory": b}`
once for each grader, then `{"problem": ..., "text": ...}` for each answer, and reads one frame for each.

Graders see a standard input that is empty and a standard output that goes to standard error: a `print` in a user's
grader never disturbs the frames. The worker dies with the thread that started it (Linux) or soon after its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import sys
import threading
import time
from typing import Any

LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until the parent closes the pipe. Called as `python -m rema_env.grading.worker PARENT_PID`."""
    _die_with_parent(int(sys.argv[1]))
    source, sink = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    grade = None
    while (frame := _read_frame(source)) is not None:
        request = json.loads(frame)
        if "load" in request:
            grade, answer = _load(request)
        else:
            answer = _grade(grade, request)
        _write_frame(sink, json.dumps(answer).encode())


def _load(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The grader that a spec names, imported and warm, and the memory limit put on all that follows."""
    from rema_env.grading import load

    sys.path.extend(entry for entry in request["load"]["path"] if entry not in sys.path)
    try:
        grade = load(request["load"]["name"], **request["load"]["options"])
        warm_up = getattr(grade, "warm_up", None)
        if warm_up is not None:
            warm_up()
    except Exception as error:  # whatever a user's module raises while it is imported is an answer to the parent
        return None, {"error": f"{type(error).__name__}: {error}"}
    _limit_memory(request["memory"])
    return grade, {"ready": True}


def _grade(grade: Any, request: dict[str, Any]) -> dict[str, Any]:
    """One grade as JSON, or the name of what went wrong."""
    from rema_env.transcript import Outcome, problem_from_json

    try:
        result = grade(problem_from_json(request["problem"]), request["text"])
        score, outcome = float(result.score), Outcome(result.outcome)
        if not 0 <= score <= 1:
            raise ValueError(f"a score is in [0, 1], the grader gave {score}")
        extracted = None if result.extracted is None else str(result.extracted)
        return {"score": score, "outcome": str(outcome), "extracted": extracted}
    except MemoryError:
        return {"failed": "out_of_memory", "why": "MemoryError"}
    except Exception as error:  # a grader may raise anything; the outcome says so and the run goes on
        return {"failed": "crashed", "why": f"{type(error).__name__}: {error}"[:500]}


def _limit_memory(extra: int) -> None:
    """Allow `extra` bytes [B] of data beyond what is in use now; a bigger demand raises MemoryError."""
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, hard = resource.getrlimit(kind)
    limit = _data_bytes() + extra
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _data_bytes() -> int:
    """Bytes of private data mapped so far; 0 where the system does not say."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    except (OSError, StopIteration):
        return 0


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process with its parent; elsewhere, look every second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _read_frame(source: int) -> bytes | None:
    """The next frame, or None at the end of the pipe."""
    head = _read_exactly(source, LENGTH.size)
    return None if head is None else _read_exactly(source, LENGTH.unpack(head)[0])


def _read_exactly(source: int, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(source, count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _write_frame(sink: int, body: bytes) -> None:
    data = memoryview(LENGTH.pack(len(body)) + body)
    while data:
        data = data[os.write(sink, data) :]


if __name__ == "__main__":
    main()
