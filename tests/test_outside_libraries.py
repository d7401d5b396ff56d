"""Other projects' PPO learns on the numeric view: the code of docs/outside_libraries.md, run as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import rema_env
from rema_env.views import ARITHMETIC_MACROS, MacroActions

PAGE = (Path(__file__).parent.parent / "docs" / "outside_libraries.md").read_text()
WORLD, *PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NEEDED = {"stable_baselines3": ("stable_baselines3", "supersuit"), "torchrl": ("torchrl",), "tianshou": ("tianshou",)}


def gain(rewards: Sequence[float]) -> float:
    """Mean reward of the last fifth of the episodes minus that of the first."""
    fifth = len(rewards) // 5
    return float(np.mean(rewards[-fifth:]) - np.mean(rewards[:fifth]))


def random_rewards(seed: int, episodes: int) -> list[float]:
    """What the two agents are paid on average in each episode where both choose at random."""
    env, rng, rewards = MacroActions(rema_env.math_v0(max_rounds=4), ARITHMETIC_MACROS), np.random.default_rng(seed), []
    env.reset(seed=seed)
    for _ in range(episodes):
        paid = 0.0
        for _ in env.agent_iter():
            _, reward, terminated, truncated, _ = env.last(observe=False)
            paid += reward
            env.step(None if terminated or truncated else int(rng.integers(len(ARITHMETIC_MACROS))))
        rewards.append(paid / 2)
        env.reset()
    return rewards


@pytest.fixture(scope="module")
def chance() -> float:
    """The most that 20 random players gain; in few episodes, which makes it more than in as many as are trained on."""
    return max(gain(random_rewards(seed, episodes=250)) for seed in range(20))


@pytest.mark.parametrize("library", NEEDED)
def test_an_outside_library_gains_more_than_twenty_random_players(library: str, chance: float, tmp_path: Path) -> None:
    if missing := [module for module in NEEDED[library] if find_spec(module) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed: make interop")
    (program,) = [code for code in PROGRAMS if f"from {library}" in code]
    script = tmp_path / "program.py"
    script.write_text(f"{WORLD}\n{program}\nimport json\nprint(json.dumps(rewards))\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rewards = json.loads(done.stdout.splitlines()[-1])
    assert len(rewards) > 500
    assert gain(rewards) > max(chance, 0.3)
