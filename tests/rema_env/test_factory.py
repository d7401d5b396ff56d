from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from itertools import permutations

import pytest

import rema_env


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_and_making_it_loads_nothing_heavy() -> None:
    heavy = ("torch", "pandas", "datasets", "sympy", "math_verify", "transformers", "pyarrow", "rema_agents", "algos")
    loaded = run_python(f"import sys, rema_env; rema_env.math_v0(); print([m for m in {heavy} if m in sys.modules])")
    assert loaded.strip() == "[]"


@pytest.mark.parametrize(
    "imports", list(permutations(["rema_env.tasks.math", "rema_env", "rema_env.problems.arithmetic"], 3)), ids=", ".join
)
def test_the_public_name_is_the_factory_in_any_order_of_imports(imports: tuple[str, ...]) -> None:
    code = "\n".join(f"import {name}" for name in imports)
    run_python(
        f"import importlib, pickle\n{code}\nimport pettingzoo\n"
        "assert callable(rema_env.math_v0) and callable(rema_env.math_v0.parallel_env)\n"
        "kept = pickle.dumps(rema_env.math_v0)\n"
        "importlib.reload(rema_env.tasks.math); importlib.reload(rema_env)\n"
        "env = pickle.loads(kept)()\n"
        "assert callable(rema_env.math_v0)\n"
        "pickle.dumps(rema_env.math_v0)\n"
        "pettingzoo.make('aec', 'rema/math_v0').reset(seed=1)\n"
    )


def test_an_environment_pickles_in_the_middle_of_a_dialogue() -> None:
    env = rema_env.math_v0()
    env.reset(seed=3)
    env.step("Compute")
    for twin in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert twin.last() == env.last()
        assert twin.unwrapped.transcript == env.unwrapped.transcript


def test_bound_makers_pickle_too() -> None:
    assert pickle.loads(pickle.dumps(rema_env.math_v0)) is rema_env.math_v0
    assert pickle.loads(pickle.dumps(rema_env.math_v0.parallel_env))().metadata["name"] == "math_v0"


def test_the_parallel_environment_shows_the_plan_to_the_reasoner() -> None:
    env = rema_env.math_v0.parallel_env()
    env.reset(seed=0)
    observations, *_ = env.step({"meta_0": "Add the two numbers.", "reasoner_0": "ignored"})
    assert "Add the two numbers." in observations["reasoner_0"]["messages"][-1]["content"]
    assert "ignored" not in str(observations)
    with pytest.raises(ValueError, match="it is reasoner_0's turn, and there are actions of meta_0;"):
        env.step({"meta_0": "And now?"})


def test_the_parallel_environment_tells_whose_turn_it_is_from_the_start() -> None:
    env = rema_env.math_v0.parallel_env()
    _, infos = env.reset(seed=0)
    assert {info["active_agent"] for info in infos.values()} == {"meta_0"}
    with pytest.raises(ValueError, match="it is meta_0's turn, and there are actions of nobody;"):
        env.step({})
    *_, infos = env.step({"meta_0": "Add."})
    assert {info["active_agent"] for info in infos.values()} == {"reasoner_0"}
