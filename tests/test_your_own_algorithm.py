"""docs/your_own_algorithm.md: what it shows runs as written, and its package works once it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "your_own_algorithm.md").read_text()
PACKAGE = ROOT / "tests" / "packages" / "rloo"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_module_on_the_page_is_the_module_that_is_tested() -> None:
    assert (PACKAGE / "rloo.py").read_text() in EXAMPLES


@pytest.mark.parametrize("code", [code for code in EXAMPLES if "algos.launch" not in code])
def test_every_other_example_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    if "make_team" in code:
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
        assert [line[0] for line in lines] == ["0", "1"]
        assert all(float(norm) > 0 for _, _, norm in lines)


def test_the_loop_as_a_script_is_about_forty_lines() -> None:
    (script,) = [code for code in EXAMPLES if "make_team" in code]
    body = script[script.index("STEPS") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 40


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The package, built and installed into a folder of its own; the environment of a process that sees it."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(PACKAGE)], check=True, capture_output=True)
    return {"PYTHONPATH": f"{folder}:{ROOT}", "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PATH": "/usr/bin:/bin"}


def test_an_installed_algorithm_conforms(installed: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "algos.conformance", "rloo"]
    out = subprocess.run(argv, env=installed, capture_output=True, text=True, check=True, cwd="/").stdout
    assert "FAILS" not in out
    assert out.splitlines()[-1].endswith("it is 1.000000 times the policy gradient, cosine 1.000000")


def test_an_installed_algorithm_trains_by_its_name(installed: dict[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "algos", "run", "rloo", "--env", "math_v0", "--max-steps", "1"]
    small = ["--problems-per-step", "2", "--num-generations", "4", "--eval-num-problems", "4", "--save-steps", "0"]
    done = subprocess.run(
        [*argv, *small, "--output-dir", str(tmp_path / "run")], env=installed, capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert "step 1/1" in done.stdout
    assert (tmp_path / "run" / "summary.json").is_file()
