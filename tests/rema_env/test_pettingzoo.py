"""PettingZoo's own test suite, with no warning but those that text cannot avoid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pettingzoo
import pytest
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

import rema_env
from rema_env.process import PROCESSES
from rema_env.testing import check_text_env
from rema_env.views import ARITHMETIC_MACROS, MacroActions, TokenObs

# What PettingZoo says of any environment whose observations, actions and state are text: it expects arrays there.
PROBABLY = "space for each {} probably should be gymnasium.spaces.box or gymnasium.spaces.discrete"
UNAVOIDABLE = {
    "Observation is not a NumPy array",
    "State is not NumPy array",
    f"Observation {PROBABLY.format('agent')}",
    f"Action {PROBABLY.format('agent')}",
    f"State {PROBABLY.format('environment')}",
}

TASKS = (rema_env.math_v0, rema_env.judge_v0, rema_env.qa_v0)
ENVIRONMENTS: dict[str, Callable[..., Any]] = {
    f"{task.name}-{process}": partial(task, process=process) for task in TASKS for process in PROCESSES
}
PARALLEL: dict[str, Callable[..., Any]] = {
    f"{task.name}-{process}": partial(task.parallel_env, process=process) for task in TASKS for process in PROCESSES
}

TEXT = tuple(ENVIRONMENTS)  # what models talk in; the wrappers below show or take numbers


def with_tokens(**arguments: Any) -> TokenObs:
    return TokenObs(rema_env.math_v0(**arguments), length=64)


def with_macros(**arguments: Any) -> MacroActions:
    return MacroActions(rema_env.math_v0(**arguments), ARITHMETIC_MACROS)


def with_json(**arguments: Any) -> Any:
    return rema_env.math_v0(actions="json", invalid_action=0.1, **arguments)


for wrapped in (with_tokens, with_macros, with_json):
    ENVIRONMENTS[wrapped.__name__] = wrapped
    PARALLEL[wrapped.__name__] = lambda wrapped=wrapped: turn_based_aec_to_parallel(wrapped())

each = pytest.mark.parametrize("name", ENVIRONMENTS)


@contextmanager
def only_unavoidable_warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert {str(warning.message) for warning in caught} <= UNAVOIDABLE


@each
def test_api(name: str) -> None:
    with only_unavoidable_warnings():
        api_test(ENVIRONMENTS[name](), num_cycles=50)


@each
def test_seed(name: str) -> None:
    with only_unavoidable_warnings():
        seed_test(ENVIRONMENTS[name], num_cycles=50)


@each
def test_parallel_api(name: str) -> None:
    with only_unavoidable_warnings():
        parallel_api_test(PARALLEL[name](), num_cycles=50)


@each
def test_parallel_seed(name: str) -> None:
    with only_unavoidable_warnings():
        parallel_seed_test(PARALLEL[name], num_cycles=50)


@each
def test_render(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with only_unavoidable_warnings():
        render_test(ENVIRONMENTS[name])
    assert "reasoner_0:" in capsys.readouterr().out


@each
def test_state(name: str) -> None:
    with only_unavoidable_warnings():
        state_test(ENVIRONMENTS[name](), PARALLEL[name]())


@pytest.mark.parametrize("name", [*TEXT, "with_json"])
def test_it_can_be_played_and_trained_on(name: str) -> None:
    check_text_env(ENVIRONMENTS[name]())


@pytest.mark.parametrize("kind", ["aec", "parallel"])
@pytest.mark.parametrize("name", ["rema/math_v0", "rema/math-v0"])
def test_the_registry_makes_it_by_name(kind: Any, name: str) -> None:
    env = pettingzoo.make(kind, name, max_cycles=3, process="single_turn")
    assert env.unwrapped.limits.max_rounds == 3
    assert env.unwrapped.process.name == "single_turn"
