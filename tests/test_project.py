"""The project itself: what it ships, what it declares, and how it is set up."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("rema_env", "rema_agents", "algos")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    """The distributions that requirement lines name."""
    return {normal(re.match(r"[\w.-]+", line)[0]) for line in requirements}  # type: ignore[index]


@cache
def shipped_by() -> dict[str, set[str]]:
    """Import name -> the installed distributions that provide it."""
    return {module: {normal(name) for name in found} for module, found in packages_distributions().items()}


def imported(package: str) -> Iterator[tuple[str, Path]]:
    """Each foreign top-level module that a package imports anywhere, also inside functions, and the file that does."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            for module in modules:
                root = module.partition(".")[0]
                if root not in sys.stdlib_module_names and root not in PACKAGES:
                    yield root, path.relative_to(ROOT)


EXTRAS = {extra: names(lines) for extra, lines in PROJECT["optional-dependencies"].items()}
PLAIN = names(PROJECT["dependencies"])
RUNTIME = PLAIN.union(*(EXTRAS[extra] for extra in ("train", "vllm", "lora", "remote")))


@pytest.mark.parametrize(
    ("package", "declared"),
    # The hub is reached through `datasets` where it is installed; the environment's own files need nothing but pyarrow.
    [("rema_env", PLAIN | {"datasets"}), ("rema_agents", RUNTIME), ("algos", RUNTIME)],
)
def test_every_import_of_a_shipped_package_is_declared(package: str, declared: set[str]) -> None:
    undeclared = [
        f"{path} imports {module}"
        for module, path in imported(package)
        if not (shipped_by().get(module, set()) | {normal(module)}) & declared
    ]
    assert undeclared == []


def test_every_declared_requirement_is_pinned_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {normal(line.partition("==")[0]) for line in lines if re.fullmatch(r"[\w.-]+==[\w.]+", line)}
    wanted = PLAIN.union(*EXTRAS.values(), {"pip"})
    assert wanted - pins - {"rema-rl"} == set()
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+|#.*", line)] == []


def test_chat_templates_are_rendered_in_one_file_only() -> None:
    callers = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "apply_chat_template(" in path.read_text()
    ]
    assert callers == ["rema_agents/chat.py"]


def test_the_wheel_holds_the_three_packages_with_the_embedded_model_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("rema_rl-*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in files if ".dist-info/" not in name} == set(PACKAGES)
    for needed in ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"):
        assert f"rema_agents/tiny/model/{needed}" in files
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(files)


def setup(**environment: str) -> subprocess.CompletedProcess[str]:
    """What the installing script says under another environment, in a folder where it can do no harm."""
    return subprocess.run(
        ["/bin/sh", "requirements/install.sh", "cpu"], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_setup_without_any_python_says_which_are_needed(tmp_path: Path) -> None:
    result = setup(PATH=str(tmp_path))
    assert result.returncode == 1
    assert "Python 3.11, 3.12 or 3.13 with the venv module is needed" in result.stderr


def test_setup_refuses_an_interpreter_that_is_no_suitable_python() -> None:
    result = setup(PATH=os.environ["PATH"], PYTHON="cat")
    assert result.returncode == 1
    assert "PYTHON=cat is not a Python 3.11, 3.12 or 3.13" in result.stderr


def test_an_unknown_backend_is_refused() -> None:
    result = subprocess.run(["make", "setup", "BACKEND=tpu"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 2
    assert "BACKEND is cpu or cuda, got 'tpu'" in result.stderr
