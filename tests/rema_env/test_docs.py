"""The pages about environments: their code runs as written, top to bottom; their tables say what there is."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rema_env
from rema_env.dialogue import Settings
from rema_env.process import PROCESSES
from rema_env.terms import TERMS
from rema_env.transcript import Ending, Outcome

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("environments/math_v0.md", "environments/judge_v0.md", "environments/qa_v0.md", "use_in_your_own_code.md")


def python_in(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_as_written(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for code in python_in(page):
        exec(compile(code, page, "exec"), names)
    assert capsys.readouterr().out


def test_each_block_of_ones_own_code_runs_alone_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    for code in python_in("use_in_your_own_code.md"):
        assert "import rema_env" in code
        exec(compile(code, "page", "exec"), {"__name__": "page"})
    out = capsys.readouterr().out
    assert out.startswith("finished ")
    assert "message_limit" in out
    assert "Box(0, 256, (128,), int64) Discrete(4)" in out


def test_the_task_in_thirty_lines_passes_both_checks(tmp_path: Path) -> None:
    task, check = python_in("your_own_task.md")
    lines = [line for line in task.splitlines() if line.strip()]
    assert len(lines) <= 30
    (tmp_path / "capitals.py").write_text(task)
    (tmp_path / "check.py").write_text("import warnings\nwarnings.simplefilter('ignore')\n" + check)
    here = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{DOCS.parent}"}
    command = [sys.executable, "check.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=here)
    assert done.returncode == 0, done.stderr
    assert "Passed API test" in done.stdout


def test_the_task_in_thirty_lines_pays_who_names_the_city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "capitals.py").write_text(python_in("your_own_task.md")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "capitals", raising=False)
    env = rema_env.resolve("capitals:env")().unwrapped
    env.reset(options={"problem": {"question": "France", "answer": "Paris"}})
    for message in ("Lyon", "No.", "Paris", "Agreed."):
        env.step(message)
    assert env.rewards == {"namer_0": 1.0, "checker_0": 1.0}


@pytest.mark.parametrize("name", ["math_v0", "judge_v0", "qa_v0"])
def test_a_page_states_the_spaces_and_arguments_that_there_are(name: str) -> None:
    page = (DOCS / "environments" / f"{name}.md").read_text()
    common = (DOCS / "environments" / "README.md").read_text()
    env = rema_env.resolve(name)()
    assert f"`{env.action_space('meta_0')}`" in page
    told = str(env.observation_space("meta_0")).replace("'", '"')
    assert f"`{told}`" in page
    own = inspect.signature(rema_env.resolve(name).raw_env).parameters  # type: ignore[attr-defined]
    missing = [p for p in own if p != "settings" and f"`{p}`" not in page + common and f"{p}=" not in page]
    assert missing == []


def test_the_common_page_names_every_ending_outcome_process_term_and_setting() -> None:
    page = (DOCS / "environments" / "README.md").read_text()
    names = [*map(str, Ending), *map(str, Outcome), *PROCESSES, *TERMS]
    names += Settings.__annotations__
    assert [name for name in names if name not in page] == []


@pytest.mark.parametrize("page", [*PAGES, "your_own_task.md", "environments/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = DOCS / page
    links = re.findall(r"\]\((?!http)([^)#]+)\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
