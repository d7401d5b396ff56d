"""Training and evaluation through vLLM: in a child process that is killed midway, and behind a real server."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from algos import evaluate, grpo
from algos.verify import verify
from rema_agents.episodes import read_episodes
from rema_agents.types import Completion, Episode
from rema_agents.vllm import VLLMSampler
from rema_env.transcript import Ending
from tests.algos.steps import steps_of
from tests.served import Engine, Served, needs_vllm, small_folder, small_model

pytestmark = [
    needs_vllm,
    pytest.mark.xdist_group("vllm"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # what vLLM imports
]

RULES = [
    "--preset", "embedded", "--max-rounds", "2", "--on-cut", "continue", "--max-completion-length", "12",
    "--max-prompt-length", "200", "--unfinished-reward", "grade", "--grader", "tests.algos.parity:grade",
    "--eval-num-problems", "4",
]  # fmt: skip
TRAIN = [
    *RULES, "--problems-per-step", "2", "--num-generations", "4", "--num-minibatches", "1", "--save-steps", "1",
    "--learning-rate", "0.01",
]  # fmt: skip


def weights_arrived_and_count(run: Path) -> None:
    """After every update the sampler holds the learner's weights, and tokens are weighed by what is left between."""
    steps = steps_of(run)
    assert max(step["sampling/logp_gap_max"] for step in steps) < 1e-4
    assert max(step["grad_norm"] for step in steps) > 0
    assert all(step["sampling/importance_mean"] == pytest.approx(1, abs=1e-4) for step in steps)


def is_whole(episode: Episode) -> bool:
    """It came to its end, and every turn was sampled once."""
    turns = [(n, turn.agent) for n, turn in enumerate(episode.transcript.turns)]
    return episode.ending is not Ending.ABORTED and [(call.turn, call.agent) for call in episode.calls] == turns


def test_an_engine_that_is_killed_in_the_middle_of_a_step_costs_no_dialogue_and_the_run_is_exact_to_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = small_folder(tmp_path / "model", tied=True), tmp_path / "run"
    killed: list[int] = []
    answered: list[int] = []
    sample = VLLMSampler._sample

    async def kill_on_the_way(sampler: VLLMSampler, *call: Any) -> Completion:
        if sampler._weight_version == 1 and len(answered) >= 5 and not killed:  # in the second step
            killed.append(sampler.engine_pid)
            os.kill(sampler.engine_pid, signal.SIGKILL)
        completion = await sample(sampler, *call)
        answered.extend([1] * (completion.weight_version == 1))
        return completion

    monkeypatch.setattr(VLLMSampler, "_sample", kill_on_the_way)
    with pytest.warns(UserWarning, match="the vLLM engine died and is started anew with weights 1; the calls it took"):
        grpo.main([*TRAIN, "--sampler", "vllm", "--model-name-or-path", str(folder), "--max-steps", "3",
                   "--output-dir", str(run)])  # fmt: skip
    assert len(killed) == 1
    for step in (1, 2, 3):
        episodes = list(read_episodes(run / "episodes" / f"step-{step:06d}.jsonl"))
        assert [(e.dialogue, e.group) for e in episodes] == [(n, n // 4) for n in range(8)]
        assert all(map(is_whole, episodes))
        assert {call.completion.weight_version for e in episodes for call in e.calls} == {step - 1}
    weights_arrived_and_count(run)
    assert verify(run) == []


def test_an_engine_is_evaluated_on_and_the_stored_episodes_are_exact_to_the_token(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def running(folder: str, **settings: Any) -> VLLMSampler:
        """The engine that other tests use, in place of another one of the same model."""
        asked.append((folder, settings["max_model_len"], settings["max_num_seqs"], settings["weights"]))
        return engine.sampler

    monkeypatch.setattr("rema_agents.vllm.VLLMSampler", running)
    monkeypatch.setattr(engine.sampler, "close", lambda: None)
    engine.publish(small_model(tied=True), 0)
    run = tmp_path / "run"
    evaluate.main([str(engine.folder), *RULES, "--sampler", "vllm", "--output-dir", str(run)])
    assert asked == [(str(engine.folder), 212, 512, "auto")]
    assert "heldout: 4 problems, accuracy " in capsys.readouterr().out
    assert verify(run) == []
    assert "log-probabilities of 16 within" in capsys.readouterr().out


def test_a_server_is_evaluated_on_and_the_stored_episodes_are_exact_to_the_token(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.start_anew()
    run = tmp_path / "run"
    evaluate.main([str(served.folder), *RULES, "--sampler", "remote", "--server", served.url, "--output-dir", str(run)])
    assert "heldout: 4 problems, accuracy " in capsys.readouterr().out
    assert verify(run) == []
    assert "log-probabilities of 16 within" in capsys.readouterr().out


def test_a_server_that_takes_weights_is_trained_from_the_models_weights_on(served: Served, tmp_path: Path) -> None:
    run = tmp_path / "run"
    grpo.main([*TRAIN, "--model-name-or-path", str(served.folder), "--sampler", "remote", "--server", served.url,
               "--max-steps", "2", "--output-dir", str(run)])  # fmt: skip
    weights_arrived_and_count(run)
    assert verify(run) == []


def test_a_frozen_role_plays_on_a_server_while_the_other_learns_here(served: Served, tmp_path: Path) -> None:
    served.start_anew()
    run = tmp_path / "run"
    grpo.main([*TRAIN, "--model-name-or-path", str(served.folder), "--team", "separate", "--train", "meta",
               "--server", f"reasoner={served.url}", "--max-steps", "2", "--output-dir", str(run)])  # fmt: skip
    versions = {
        (call.agent, call.completion.weight_version)
        for episode in read_episodes(run / "episodes" / "step-000002.jsonl")
        for call in episode.calls
    }
    assert versions == {("meta_0", 1), ("reasoner_0", 0)}
    assert "sampling/importance_mean" not in steps_of(run)[0], "the learner's own sampler needs no correction"
    assert verify(run) == []
