"""The most memory that this process held [bytes]."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path


def peak() -> float:
    """The peak of the resident set, so far or since it was forgotten."""
    status = Path("/proc/self/status")
    if status.exists():
        told = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return float(told["VmHWM"].split()[0]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # bytes on macOS


def forget_peak() -> float:
    """Make the present resident set the peak, where Linux allows it; returns it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()
