"""A package of someone else's, installed as a user would: three agents, of whom one may speak twice, learn by name.

`tests/packages/debate` brings process, problems, prompts and grader; it imports rema, and nothing in rema names it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parent.parent
ROLES = ("solver", "critic", "refiner")

CHECKS = """
import dataclasses
import warnings

import debate
import rema_env
from pettingzoo.test import api_test
from rema_env.process import as_chat
from rema_env.testing import check_text_env

def view(transcript, role):
    return as_chat(transcript.problem.question, transcript.turns, role)

assert "debate_v0" in rema_env.registry.names()
for name in ("debate_v0", "debate:env"):
    check_text_env(rema_env.resolve(name)())
check_text_env(rema_env.resolve("debate:env")(max_rounds=1, on_cut="continue"))
check_text_env(rema_env.dialogue_env(dataclasses.replace(debate.PROCESS, view=view), debate.Sums()))
warnings.filterwarnings("ignore", ".*(probably should be gymnasium.spaces|is not a NumPy array)")
api_test(rema_env.resolve("debate:env")(max_rounds=3), num_cycles=50)
"""

PLAYED = """
import json
import sys

import rema_env

settings, script = json.loads(sys.argv[1])
env = rema_env.resolve("debate:env")(**settings)
env.reset(options={"problem": {"question": "4+5?", "answer": "9"}})
said, paid = iter(script), dict.fromkeys(env.possible_agents, 0.0)
for agent in env.agent_iter():
    _, reward, terminated, truncated, _ = env.last(observe=False)
    paid[agent] += reward
    env.step(None if terminated or truncated else next(said))
transcript = env.unwrapped.transcript
print(json.dumps([[turn.role for turn in transcript.turns], transcript.ending, paid, list(said)]))
"""
ROUNDS_OF_FOUR_AND_THREE = ["solver", "critic", "critic", "refiner", "solver", "critic", "refiner"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package is installed, with what makes its entry point known."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-index", "--no-deps"]
    package = ROOT / "tests" / "packages" / "debate"
    subprocess.run([*pip, "--no-build-isolation", "--target", folder, package], check=True)
    return folder


def python(site: Path, *arguments: str, folder: Path) -> str:
    """What a Python that finds the package prints."""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=here, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def grpo(site: Path, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The metrics of five steps of the embedded model."""
    small = "--problems-per-step 2 --num-generations 4 --num-minibatches 1 --save-steps 0 --max-steps 5".split()
    rules = "--max-rounds 2 --max-prompt-length 512 --unfinished-reward grade --output-dir run".split()
    python(site, "-m", "algos.grpo", "--env", "debate:env", *small, *rules, *arguments, folder=folder)
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def terse(folder: Path) -> tuple[str, str]:
    """The flag that tells the roles what the embedded model knows to follow."""
    (folder / "tiny.yaml").write_text("solver: Solve.\ncritic: Plan.\nrefiner: Solve.\n")
    return "--system-prompts", "tiny.yaml"


def test_it_passes_every_check_by_name_and_by_path(site: Path, tmp_path: Path) -> None:
    assert "Passed API test" in python(site, "-c", CHECKS, folder=tmp_path)


def played(site: Path, folder: Path, *script: str, **settings: Any) -> list[Any]:
    """Who spoke, how it ended, what it paid and what was left to say, of a dialogue about 4+5."""
    found: list[Any] = json.loads(python(site, "-c", PLAYED, json.dumps([settings, script]), folder=folder))
    return found


def test_the_critic_may_speak_twice_and_the_packages_own_grader_pays_all_three(site: Path, tmp_path: Path) -> None:
    paid = {"solver_0": 1.0, "critic_0": 1.0, "refiner_0": 1.0}
    script = ("10", "No: 9.", "I am sure.", "9", "9", "Agreed.", "So it is 9.")
    assert played(site, tmp_path, *script) == [ROUNDS_OF_FOUR_AND_THREE, "finished", paid, []]


def test_a_term_pays_the_one_role_that_it_is_for(site: Path, tmp_path: Path) -> None:
    script = ("10", "No: 9.", "", "9", "9", "Agreed.", "So it is 9.")
    _, ending, paid, _ = played(site, tmp_path, *script, rewards={"answer": 1.0, "critic/empty": -0.5})
    assert ending == "finished"
    assert paid == {"solver_0": 1.0, "critic_0": pytest.approx(1 - 0.5 / 3), "refiner_0": 1.0}


def test_rounds_are_counted_by_the_opening_role(site: Path, tmp_path: Path) -> None:
    script = ("10", "No: 9.", "I am sure.", "9", "3", "Fine.", "9", "one too many")
    roles, ending, paid, left = played(site, tmp_path, *script, max_rounds=2)
    assert (roles, ending, left) == (ROUNDS_OF_FOUR_AND_THREE, "round_limit", ["one too many"])
    assert set(paid.values()) == {0.0}


def test_one_command_trains_all_three(site: Path, tmp_path: Path) -> None:
    steps = grpo(site, tmp_path, *terse(tmp_path))
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    assert max(step["grad_norm"] for step in steps) > 0
    assert all(f"{role}/reward" in steps[0] for role in ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_trained_alone_changes_and_the_others_stay(role: str, site: Path, tmp_path: Path) -> None:
    from rema_agents.tiny import MODEL_FOLDER

    steps = grpo(site, tmp_path, "--team", "separate", "--train", role, *terse(tmp_path))
    assert max(step["grad_norm"] for step in steps) > 0
    start = load_file(MODEL_FOLDER / "model.safetensors")
    for name in ROLES:
        weights = load_file(tmp_path / "run" / "final" / name / "model.safetensors")
        same = all(torch.equal(weights[key], weight) for key, weight in start.items())
        assert same == (name != role)
