"""Every known fault of other trainers has a test here that would fail if it came in.

Each line of `data/training_cases/*.jsonl` is one: the fault, an input, the right outcome and the tests that hold it. A
name in brackets is a check of the contract that all samplers keep.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
FILES = sorted((TESTS / "data" / "training_cases").glob("*.jsonl"))
CASES: list[dict[str, Any]] = [json.loads(line) for file in FILES for line in file.read_text("utf-8").splitlines()]


@cache
def functions(path: Path) -> dict[str, list[str]]:
    """The functions of a file, each with its decorators as they are written."""
    tree = ast.parse(path.read_text("utf-8"))
    return {
        node.name: [ast.unparse(decorator) for decorator in node.decorator_list]
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def fault_of(test: str) -> str | None:
    """What is wrong with a test's name, or None."""
    file, _, name = test.partition("::")
    name, _, parameters = name.partition("[")
    path = TESTS.parent / file
    if not file.startswith("tests/") or not path.is_file():
        return "no such file"
    if not name.startswith("test_") or name not in functions(path):
        return "no such test"
    if any(mark in written for written in functions(path)[name] for mark in ("mark.long", "mark.skip(", "mark.xfail")):
        return "it does not run with the others"
    if name == "test_contract" and parameters.rstrip("]").rpartition("-")[2] not in functions(
        TESTS / "rema_agents" / "contract.py"
    ):
        return "no such check in the contract"
    return None


def test_every_case_has_a_number_of_its_own() -> None:
    assert [number for number, count in Counter(case["id"] for case in CASES).items() if count > 1] == []


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_case_says_what_is_right_and_which_tests_hold_it(case: dict[str, Any]) -> None:
    assert all(case[name].strip() for name in ("fault", "input", "right"))
    assert case["tests"]
    assert {test: fault for test in case["tests"] if (fault := fault_of(test))} == {}


def test_a_name_that_is_no_test_is_noticed() -> None:
    pool = "tests/rema_env/grading/test_pool.py"
    assert fault_of(f"{pool}::test_threads_share_a_pool") is None
    assert fault_of(f"{pool}::test_threads_share_a_swimming_pool") == "no such test"
    assert fault_of("tests/nowhere.py::test_threads_share_a_pool") == "no such file"
    assert (
        fault_of("tests/rema_agents/test_hf.py::test_contract[llama-no_such_check]") == "no such check in the contract"
    )
    hostile = "tests/rema_env/grading/test_hostile.py::test_five_hundred_hostile_answers_among_five_thousand_easy_ones"
    assert fault_of(hostile) == "it does not run with the others"
