"""What README and CONTRIBUTING show runs as written, and what they name is there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {page: (ROOT / page).read_text() for page in ("README.md", "CONTRIBUTING.md")}
EXAMPLES = [
    (page, code) for page, text in PAGES.items() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]


def executed(code: str) -> dict[str, Any]:
    """The names that an example defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, "example", "exec"), names)
    return names


def example(page: str, mark: str) -> dict[str, Any]:
    """The names that the one example of a page defines that holds `mark`."""
    (code,) = [code for where, code in EXAMPLES if where == page and mark in code]
    return executed(code)


@pytest.mark.parametrize(("page", "code"), EXAMPLES)
def test_every_python_example_runs(page: str, code: str) -> None:
    executed(code)


def test_the_scripted_dialogues_of_the_readme_are_all_right(capsys: pytest.CaptureFixture[str]) -> None:
    example("README.md", "env.agent_iter")
    assert capsys.readouterr().out.endswith("finished 1.0\n")
    example("README.md", "ScriptedSeat")
    assert capsys.readouterr().out == "1.0\n"


def test_the_riddles_pay_for_the_right_answer() -> None:
    env = example("CONTRIBUTING.md", "riddles")["env"]()
    env.reset(options={"problem": {"question": "What gets wetter the more it dries?", "answer": "a towel"}})
    env.step("What dries things? [FINISH]")
    env.step(r"\boxed{a towel}")
    assert env.unwrapped.transcript.ending == "finished"
    assert dict(env.rewards) == {"meta_0": 1.0, "reasoner_0": 1.0}


def test_the_leave_one_out_baseline_is_the_mean_of_the_others() -> None:
    import torch

    batch = SimpleNamespace(
        reward_S=torch.tensor([1.0, 0.0, 0.5, 1.0]),
        group_S=torch.tensor([0, 0, 0, 1]),
        trajectory_B=torch.tensor([0, 1, 2, 3]),
        turn_BT=torch.zeros(4, 2, dtype=torch.long),
    )
    adv_BT, _ = example("CONTRIBUTING.md", "leave_one_out")["advantages"](batch, None)
    assert adv_BT[:, 0].tolist() == pytest.approx([0.75, -0.75, 0.0, 0.0])


@pytest.mark.parametrize("page", PAGES)
def test_every_module_and_file_that_a_page_names_exists(page: str) -> None:
    text = PAGES[page]
    modules = re.findall(r"python -m ((?:rema_env|rema_agents|algos|benchmarks)[\w.]*)", text)
    files = re.findall(r"`((?:rema_env|rema_agents|algos)/[\w./]+)`", text) + re.findall(
        r"\]\((?!http)([^)#]+)\)", text
    )
    assert [name for name in modules if find_spec(name) is None] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_tree_in_the_readme_is_the_tree_on_disk() -> None:
    (tree,) = re.findall(r"## Where things are\n\n```\n(.*?)```", PAGES["README.md"], re.DOTALL)
    folder, missing = "", []
    for line in tree.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else name
        path = ROOT / folder / name if line.startswith(" ") else ROOT / folder
        if not path.exists():
            missing.append(str(path.relative_to(ROOT)))
    assert missing == []
