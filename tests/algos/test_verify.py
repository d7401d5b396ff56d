"""The proof of exactness holds for what was really sampled, and fails for a single id that was changed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from algos import evaluate, grpo
from algos.command_line import flatten, parse
from algos.run_folder import RunFolder
from algos.team import Policy, Team
from algos.verify import main
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.models import model_folder
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


Line = dict[str, Any]


def change_call(**changes: Callable[[Any], Any]) -> Callable[[Line], None]:
    """The second call of an episode with some of its fields made otherwise."""

    def change(line: Line) -> None:
        line["calls"][1] |= {name: made(line["calls"][1][name]) for name, made in changes.items()}

    return change


def other_prompt_id(line: Line) -> None:
    line["calls"][1]["prompt_ids"][-3] = (line["calls"][1]["prompt_ids"][-3] + 1) % 30


def aborted(line: Line) -> None:
    line["transcript"]["ending"] = "aborted"


def aborted_unpaid(line: Line) -> None:
    """As a dialogue is stored that ran out of time in its last step, but for its pay."""
    line["transcript"]["ending"], line["info"] = "aborted", {}
    line["rewards"] = {"meta_0": 0.5, "reasoner_0": 0.5}


def never_ended(line: Line) -> None:
    line["transcript"]["turns"].pop()
    line["calls"].pop()


def other_grade(line: Line) -> None:
    line["info"] |= {"score": 1.0 - line["info"]["score"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (change_call(token_ids=lambda ids: [(ids[0] + 1) % 30, *ids[1:]]), "the sampled ids say"),
        (other_prompt_id, "the stored prompt is not what the chat gives"),
        (change_call(logps=lambda logps: [logps[0] - 0.01, *logps[1:]]), "is 1.0e-02 from what its weights give"),
        (change_call(logps=lambda logps: logps[1:]), "log-probabilities"),
        (change_call(logps=lambda logps: []), "sampled ids but 0 log-probabilities"),
        (change_call(logps=lambda logps: [math.nan] * len(logps)), "a log-probability is no finite number"),
        (change_call(weight_version=lambda version: 77), "come from weights 0, 77, expected one number from 0 to 0"),
        (change_call(agent=lambda agent: "ghost_0"), "turn 1 is reasoner_0's, but its call is ghost_0's"),
        (aborted, "it is stored as aborted, but it is finished"),
        (aborted_unpaid, "meta_0 is stored as paid 0.5, but is paid 0.0"),
        (never_ended, "it is stored as finished, but it was not over"),
        (other_grade, "its score is stored as"),
        (lambda line: line["rewards"].update(meta_0=99), "meta_0 is stored as paid 99, but is paid"),
        (lambda line: line["rewards"].update(meta_0=math.nan), "meta_0 is stored as paid nan, but is paid"),
        (lambda line: line["calls"].clear(), "turn 0 was said by meta_0, and there is no call of it"),
        (lambda line: line.update(dialogue=9), "its dialogues are not numbered from 0 on"),
        (lambda line: line["info"].update(branch_of=7, branch_turn=9), "branch of dialogue 7, which does not begin so"),
    ],
)
def test_one_change_is_found(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Line], None], said: str
) -> None:
    lines = [json.loads(line) for line in (run / "episodes" / "step-000001.jsonl").read_text().splitlines()]
    change(next(line for line in lines if line["transcript"]["ending"] == "finished"))
    code, out = verified(with_episodes(tmp_path, run, lines), capsys)
    assert code == 1
    assert said in out


def with_episodes(tmp_path: Path, run: Path, lines: list[Line]) -> Path:
    """A run folder with the settings of another and these episodes of its first step."""
    copy = tmp_path / "run"
    (copy / "episodes").mkdir(parents=True)
    (copy / "config.yaml").write_text((run / "config.yaml").read_text())
    (copy / "episodes" / "step-000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return copy


def test_a_file_without_episodes_is_a_fault(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = verified(with_episodes(tmp_path, run, []), capsys)
    assert (code, "step-000001.jsonl: it holds no episode" in out) == (1, True)


def test_a_template_that_writes_the_time_is_named_as_the_likely_cause(
    embedded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shutil.copytree(embedded, tmp_path / "model")
    template, says = model / "chat_template.jinja", (embedded / "chat_template.jinja").read_text()
    template.write_text("{{ strftime_now('%d') }}" + says)
    evaluate.main(
        [str(model), "--preset", "embedded", "--eval-num-problems", "2", "--output-dir", str(tmp_path / "kept")]
    )
    template.write_text("{{ strftime_now('%d%m') }}" + says)  # as if another day had come
    code, out = verified(tmp_path / "kept", capsys)
    assert code == 1
    assert "from id 2 on; the chat template writes the date or time (strftime_now), which was another then" in out


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
