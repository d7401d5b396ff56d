"""The doctor reports what is here and survives what is not."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path
from typing import Any

from algos.doctor import as_text, run

ROOT = Path(__file__).parents[2]


def doctor(python: Path | str) -> dict[str, Any]:
    """The doctor's report under some interpreter."""
    said = subprocess.run(
        [python, "-m", "algos.doctor", "--json"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(said.stdout)


def test_it_reports_what_is_installed_and_that_the_samplers_work() -> None:
    report = doctor(sys.executable)
    assert report["packages"]["torch"] == version("torch")
    assert report["samplers"]["hf"] == report["samplers"]["remote"] == report["samplers"]["scripted"] == "works"
    assert report["memory_gib"] > 0
    assert isinstance(report["gpus"], list)


def test_on_a_bare_python_it_says_that_torch_is_not_installed(tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False, symlinks=True)
    report = doctor(tmp_path / "bin" / "python")
    assert report["packages"]["torch"] is None
    assert report["gpus"] == report["samplers"]["hf"] == "torch is not installed"
    assert "torch             not installed" in as_text(report)


def test_a_package_that_breaks_while_it_is_imported_is_reported_by_its_last_line() -> None:
    assert run("raise OSError('libcudart.so is missing')") == ("", "OSError: libcudart.so is missing")
    assert run("import os; os._exit(3)") == ("", "exit code 3")
    assert run("print(1)") == ("1\n", "")
