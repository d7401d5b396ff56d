"""The proof of exactness holds for what was really sampled, and fails for a single id that was changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos import evaluate, grpo
from algos.command_line import flatten, parse
from algos.models import model_folder
from algos.run_folder import RunFolder
from algos.team import Policy, Team
from algos.verify import main
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.scripted import ScriptedSampler

SMALL = ["--problems-per-step", "2", "--num-generations", "4", "--eval-num-problems", "8", "--save-steps", "1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of training with a checkpoint after each."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    grpo.main([*SMALL, "--max-steps", "2", "--output-dir", str(folder)])
    return folder


def verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and what was printed."""
    capsys.readouterr()
    code = 0
    try:
        main([str(folder)])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_a_training_run_is_exact_to_the_token(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verified(run, capsys)
    assert code == 0
    assert out.splitlines()[-1] == "all episodes fit together"
    assert out.count("log-probabilities of") == 4  # two steps and the evaluations before and after
    assert "step-000002.jsonl: 8 episodes" in out


def test_an_evaluation_is_exact_to_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate.main(["embedded", "--eval-num-problems", "8", "--output-dir", str(tmp_path / "kept")])
    code, out = verified(tmp_path / "kept", capsys)
    assert (code, out.splitlines()[-1]) == (0, "all episodes fit together")


def other_id(call: dict[str, Any]) -> None:
    call["token_ids"][0] = (call["token_ids"][0] + 1) % 30


def other_prompt_id(call: dict[str, Any]) -> None:
    call["prompt_ids"][-3] = (call["prompt_ids"][-3] + 1) % 30


def other_logp(call: dict[str, Any]) -> None:
    call["logps"][0] -= 0.01


def missing_logp(call: dict[str, Any]) -> None:
    call["logps"].pop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_id, "the sampled ids say"),
        (other_prompt_id, "the stored prompt is not what the chat gives"),
        (other_logp, "a log-probability is 1.0e-02 from what its weights give"),
        (missing_logp, "log-probabilities"),
    ],
)
def test_one_changed_number_is_found(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[dict[str, Any]], None], said: str
) -> None:
    copy = tmp_path / "run"
    (copy / "episodes").mkdir(parents=True)
    (copy / "config.yaml").write_text((run / "config.yaml").read_text())
    lines = [json.loads(line) for line in (run / "episodes" / "step-000001.jsonl").read_text().splitlines()]
    change(lines[3]["calls"][1])
    (copy / "episodes" / "step-000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out = verified(copy, capsys)
    assert code == 1
    assert said in out


def test_what_cannot_be_verified_is_said_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verified(tmp_path, capsys)
    assert code == 2
    assert "config.yaml: there is no such file" in out


def test_an_evaluation_of_a_script_is_exact_to_the_token_and_has_no_weights_to_compare_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = parse(evaluate.EvaluateConfig, ["embedded", "--max-prompt-length", "200"], prog="test")
    evaluation, world = evaluate.Evaluation.of(config), make_world(config.env)
    codec = ChatCodec.from_pretrained(model_folder("embedded", "policy"))
    sampler = ScriptedSampler(codec.tokenizer, lambda prompt, dialogue: f"{dialogue} [FINISH]")
    policy = Policy("policy", (), "embedded", codec, sampler)
    seats = evaluation.seats(Team(dict.fromkeys(world.agents, policy)), temperature=1.0)
    problems = [world.problems.draw(0, n) for n in range(4)]
    folder = RunFolder(tmp_path / "kept")
    folder.write_config({**flatten(config), "model_name_or_path": "embedded"})
    folder.write_evaluation("scripted", evaluation.play(seats, problems))
    code, out = verified(tmp_path / "kept", capsys)
    assert (code, out.splitlines()[-1]) == (0, "all episodes fit together")
    assert "4 episodes, 8 calls, no weights for them on disk" in out
