"""Supervised finetuning: the loss, the loop, the recipe of the embedded model."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from algos import sft
from algos.algorithm import Out
from algos.batch import Batch, make_batch
from algos.command_line import parse
from algos.functional import token_shares
from algos.learner import Learner
from algos.lessons import Lesson, Mistakes, make_lessons, play_lessons
from algos.scoring import Precision
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.tiny import MODEL_FOLDER, SYSTEM_PROMPTS
from rema_agents.types import Episode

AGENTS = ("meta_0", "reasoner_0")
CPU = Precision(torch.device("cpu"), torch.float32)
SMALL = ("--max-steps", "3", "--dialogues-per-step", "4", "--seed", "7")


def config_of(*args: str) -> sft.Config:
    return parse(sft.Config, args, prog="test", defaults=sft.defaults)


def trained(folder: Path, *args: str) -> Path:
    """The folder of a run with these flags."""
    sft.main([*SMALL, "--output-dir", str(folder), *args])
    return folder


def test_the_loss_is_the_mean_negative_log_probability_of_what_was_said(episodes: list[Episode]) -> None:
    batch: Batch = make_batch(episodes[:2], AGENTS)
    batch = batch.with_tensors(share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float())
    logp_BT = torch.where(batch.trained_BT, torch.log(torch.tensor(0.25)), torch.tensor(0.0))
    value, _ = sft.loss(Out(logp_BT), batch)
    assert float(value) == pytest.approx(math.log(4))


def test_the_same_seed_gives_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    weights = [
        (trained(tmp_path / name) / "final/policy/model.safetensors").read_bytes() for name in ("first", "second")
    ]
    assert weights[0] == weights[1]
    assert weights[0] != (MODEL_FOLDER / "model.safetensors").read_bytes()


def test_a_run_leaves_a_model_folder_metrics_and_a_summary(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    files = {path.name for path in (run / "final" / "policy").iterdir()}
    assert files >= {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"}
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2, 3]
    assert metrics[0].keys() >= {"loss", "grad_norm", "learning_rate", "tokens", "step_time"}
    assert json.loads((run / "summary.json").read_text())["steps"] == 3


def test_finetuning_the_embedded_model_goes_on_from_what_it_knows(tmp_path: Path) -> None:
    losses = {}
    for flag in ("--from-scratch", "--no-from-scratch"):
        first, *_ = (trained(tmp_path / flag, flag) / "metrics.jsonl").read_text().splitlines()
        losses[flag] = json.loads(first)["loss"]
    assert losses["--no-from-scratch"] < 1 < losses["--from-scratch"]


def test_separate_weights_learn_their_own_role_each(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "--team", "separate", "--no-from-scratch")
    weights = {(run / "final" / role / "model.safetensors").read_bytes() for role in ("meta", "reasoner")}
    assert len(weights) == 2


def test_a_file_of_dialogues_teaches_a_named_model(tmp_path: Path) -> None:
    turns = [{"meta": "Compute 4*2", "reasoning": "8"}, {"meta": "Compute 3+8", "reasoning": "\\boxed{1}"}]
    file = tmp_path / "dialogues.jsonl"
    file.write_text(json.dumps({"question": "Compute 3+4*2 modulo 10.", "answer": "1", "turns": turns}) + "\n")
    flags = ("--model-name-or-path", str(MODEL_FOLDER), "--dataset-name", str(file), "--learning-rate", "1e-3")
    lines = (trained(tmp_path / "run", *flags) / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert losses[-1] < losses[0] - 0.5
    apart = trained(tmp_path / "apart", *flags, "--team", "separate", "--max-steps", "1")
    (line,) = (apart / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line).keys() >= {"meta/loss", "reasoner/loss"}


def test_two_ranks_leave_one_run_with_the_weights_of_one(tmp_path: Path) -> None:
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", "-m", "algos.sft"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    argv = [*start, *SMALL, "--output-dir", str(tmp_path / "two")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("final weights: ") == 1
    assert len((tmp_path / "two" / "metrics.jsonl").read_text().splitlines()) == 3
    one, two = (
        load_file(folder / "final" / "policy" / "model.safetensors")
        for folder in (trained(tmp_path / "one"), tmp_path / "two")
    )
    assert all(torch.allclose(two[name], weight, atol=1e-4) for name, weight in one.items())


def test_what_finetuning_would_pass_over_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        config_of("--lora-rank", "8")
    assert "leave out --lora-rank and --learning-rates" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_ctrl_c_keeps_what_was_learnt(tmp_path: Path) -> None:
    school = sft.prepare(config_of(*SMALL, "--output-dir", str(tmp_path / "run")))
    lesson = school.lesson

    def interrupted(index: int) -> Lesson:
        if index == 5:  # within the second step
            os.kill(os.getpid(), signal.SIGINT)
        return lesson(index)

    final = sft.train(replace(school, lesson=interrupted), lambda line: None)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 2
    assert (final / "policy" / "model.safetensors").is_file()


def test_the_recipe_holds_for_the_embedded_model_alone() -> None:
    embedded, named = config_of(), config_of("--model-name-or-path", "someone/model")
    assert (embedded.sft.from_scratch, embedded.sft.max_steps, embedded.learner.learning_rate) == (True, 2400, 3e-3)
    assert (named.sft.from_scratch, named.sft.max_steps, named.learner.learning_rate) == (False, 500, 1e-6)


def test_the_recipe_teaches_every_process_and_a_run_with_a_process_that_one_alone(tmp_path: Path) -> None:
    school = sft.prepare(config_of(*SMALL, "--output-dir", str(tmp_path / "all")))
    assert set(school.worlds) == set(SYSTEM_PROMPTS)
    assert {school.lesson(index).process for index in range(12)} == set(SYSTEM_PROMPTS)
    school = sft.prepare(config_of(*SMALL, "--output-dir", str(tmp_path / "one"), "--process", "mrp"))
    assert list(school.worlds) == ["mrp"]
    assert school.pupils[0].agents == ("reasoner_0",)


def test_every_process_has_its_part_in_a_step(tmp_path: Path) -> None:
    tokens = {}
    for processes in (("vrp",), ("mrp",), ("vrp", "mrp")):
        run = trained(tmp_path / "-".join(processes), "--processes", *processes, "--operations", "2")
        tokens[processes] = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])["tokens"]
    assert tokens["vrp",] < tokens["vrp", "mrp"] < tokens["mrp",]


def test_flags_lie_over_the_recipe() -> None:
    assert config_of("--preset", "embedded", "--max-steps", "5", "--slip", "0").sft.max_steps == 5


def test_a_probability_beyond_one_is_refused() -> None:
    with pytest.raises(ValueError, match="--slip is a probability, got 2"):
        sft.SFTConfig(slip=2)


@pytest.mark.parametrize(
    ("flag", "value", "said"), [("--operations", "9", "got 9"), ("--max-length", "1", "context_full: 4")]
)
def test_lessons_that_cannot_be_given_end_the_command_with_one_message(
    flag: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        trained(tmp_path / "run", flag, value)
    assert said in f"{stopped.value} {capsys.readouterr().err}"


def test_a_file_without_dialogues_ends_the_command_with_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "problems.jsonl"
    file.write_text('{"question": "q", "answer": "1"}\n')
    with pytest.raises(SystemExit) as stopped:
        sft.main(["--dataset-name", str(file), "--output-dir", str(tmp_path / "run")])
    assert stopped.value.code == 2
    assert "finetuning needs the columns question and turns" in capsys.readouterr().err


def loss_of(folder: Path, process: str) -> float:
    """Cross-entropy [nats a token] of a model on 512 lessons of a process that the recipe does not reach."""
    config = config_of()
    learner = Learner(str(folder), config.learner, CPU)
    mistakes = Mistakes(config.sft.operations, config.sft.plain, config.sft.slip, config.sft.early)
    world = make_world(replace(config.env, process=process))
    lesson = make_lessons(None, mistakes, [(process, world.agents)], seed=1)
    lessons = [lesson(index) for index in range(512)]
    batch = make_batch(play_lessons(world.make_env, ChatCodec.from_pretrained(folder), lessons, 128), world.agents)
    return float(-learner.logp(batch)[batch.trained_BT].mean())


@pytest.mark.long
def test_the_recipe_makes_weights_as_good_as_those_shipped(tmp_path: Path) -> None:
    sft.main(["--output-dir", str(tmp_path / "run")])
    made = tmp_path / "run" / "final" / "policy"
    for process in SYSTEM_PROMPTS:
        assert loss_of(made, process) == pytest.approx(loss_of(MODEL_FOLDER, process), abs=0.02)
