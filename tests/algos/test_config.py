"""Flags, presets and files, and what they are laid over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from algos.command_line import flatten, parse
from algos.config import TrainConfig
from algos.grpo import Config, advantages
from tests.algos.batches import batch_of

SMALL = ["--model-name-or-path", "some/model"]


def grpo(*argv: str) -> Config:
    return parse(Config, argv, prog="grpo")


def message(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What a person reads; the exit code must be 2."""
    with pytest.raises(SystemExit) as exit_:
        grpo(*argv)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    return " ".join((captured.err + captured.out).replace("│", " ").split())


def test_with_a_model_named_the_defaults_are_those_a_7b_run_needs() -> None:
    settings = flatten(grpo(*SMALL))
    expected = {
        "preset": None,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "temperature": 1.0,
        "num_generations": 8,
        "max_completion_length": 512,
        "max_rounds": 30,
        "max_prompt_length": 4096,
        "bf16": None,  # on GPUs yes, with float32 master weights; on a CPU no
        "gradient_checkpointing": True,
        "beta": 0.0,
        "max_grad_norm": 1.0,
        "system_prompts": None,  # the environment's full ones
        "share": "token",
        "epsilon": None,  # what suits the ratio
        "epsilon_high": None,
    }
    assert {name: settings[name] for name in expected} == expected


def test_with_no_model_named_the_embedded_preset_applies_and_leaves_the_algorithm_alone() -> None:
    embedded, own = flatten(grpo()), flatten(grpo(*SMALL))
    assert {name: value for name, value in embedded.items() if value != own[name]} == {
        "preset": "embedded",
        "model_name_or_path": "embedded",
        "system_prompts": "embedded",
        "max_rounds": 4,
        "max_completion_length": 48,
        "max_prompt_length": 128,
        "problems_per_step": 16,
        "num_generations": 16,
        "num_minibatches": 2,
        "learning_rate": 5e-4,
        "micro_batch_tokens": 2048,
        "gradient_checkpointing": False,
        "max_steps": 60,
        "eval_steps": 10,
        "save_steps": 20,
    }


def test_the_command_line_lies_over_the_file_over_the_preset_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: embedded\nmax_rounds: 3\nmax-steps: 7\nbeta: 0.5\n")
    config = grpo("--config", str(file), "--max-steps", "9")
    assert config.env.max_rounds == 3
    assert config.run.max_steps == 9
    assert config.grpo.beta == 0.5
    assert config.limits.max_completion_length == 48
    assert config.common.preset == "embedded"


def test_a_runs_config_file_gives_the_same_configuration_again(tmp_path: Path) -> None:
    config = grpo("--seed", "3", "--env-kwargs", '{"a": [1]}', "--eval-datasets", "x.jsonl", "y.csv", "--bf16", "True")
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(flatten(config)))
    assert flatten(grpo("--config", str(file))) == flatten(config) | {"config": str(file)}


@pytest.mark.parametrize("flag", ["--max-steps", "--max_steps"])
def test_flags_may_be_written_with_dashes_or_underscores(flag: str) -> None:
    assert grpo(flag, "3").run.max_steps == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--preset", "small"], "there is no preset 'small'; there are: embedded"),
        (["--config", "nowhere.yaml"], "--config nowhere.yaml: there is no such file"),
        (["--num-generations", "1"], "--num-generations must be at least 2 for a group to have a baseline, got 1"),
        (["--num-minibatches", "7"], "16 problems x 16 episodes = 256 do not divide into --num-minibatches 7"),
        (["--max-rounds", "0"], "--max-rounds must be at least 1, got 0"),
        (["--learning-rate", "nan"], "--learning-rate must be at least 0, got nan"),
        (["--learning-rate", "inf"], "--learning-rate must be at least 0 and finite, got inf"),
        (["--adam-beta2", "1"], "--adam-beta2 must be from 0 to below 1, got 1.0"),
        (["--lora-rank", "-4"], "--lora-rank must be at least 0, got -4"),
        (["--lora-alpha", "0"], "--lora-alpha must be at least 1, got 0"),
        (["--output-dir", ""], "--output-dir is empty: name a folder, or leave it out"),
        (["--loss-type", "grpo", "--share", "turn"], "--loss-type is TRL's name for --share: give one of them"),
        (["--seed", "-1"], "--seed must be at least 0, got -1"),
        (["--dialogue-timeout", "0"], "--dialogue-timeout must be above 0, got 0"),
        (["--eval-max-rounds", "0"], "--eval-max-rounds must be at least 1, got 0"),
        (["--vllm-gpu-memory-utilization", "90"], "is a share above 0 and up to 1, got 90.0"),
        (["--temperature", "nan"], "training needs --temperature above 0"),
        (["--temperature", "0"], "training needs --temperature above 0"),
        (["--top-p", "0.9"], "training needs --temperature above 0, --top-p 1"),
        (["--kl-coef", "0.1"], "there is no flag --kl-coef here; use --beta"),
        (["--per_device_train_batch_size=4"], "use --problems-per-step and --micro-batch-tokens"),
        (["--no-such-flag", "1"], "--no-such-flag"),
        (["--share", "batch"], "batch"),
        (["--env-kwargs", "[1]"], "a JSON object is needed, got [1]"),
    ],
)
def test_a_mistake_is_one_message_that_names_it(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert said in message(capsys, *argv)


def test_an_unknown_key_in_a_file_is_refused_and_the_known_ones_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "typo.yaml"
    file.write_text("learning_rat: 1\n")
    said = message(capsys, "--config", str(file))
    assert "typo.yaml: there is no setting 'learning_rat'; there are:" in said
    assert "learning_rate" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scale_rewards: maybe", "scale_rewards must be group, batch or none, got 'maybe'"),
        ("scale_rewards: 1", "scale_rewards must be group, batch or none, got 1"),
        ("share: null", "share must be token, trajectory, turn, turn_in_trajectory, turn_sum or constant, got None"),
        ("zero_stage: true", "zero_stage must be 0, 1, 2 or 3, got True"),
        ("max_steps: ten", "max_steps must be a whole number, got 'ten'"),
        ("num_generations: 4.5", "num_generations must be a whole number, got 4.5"),
        ("learning_rate: fast", "learning_rate must be a number, got 'fast'"),
        ("dry_run: 'no'", "dry_run must be true or false, got 'no'"),
        ("bf16: 16", "bf16 must be true or false or null, got 16"),
        ("dataset_name: 2024", "dataset_name must be text or null, got 2024"),
        ("eval_datasets: [a.csv, 3]", "eval_datasets must be text, got 3"),
        ("env_kwargs: operations", "env_kwargs must be a mapping, got 'operations'"),
    ],
)
def test_a_file_can_say_nothing_that_a_flag_could_not(
    line: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(line)
    assert f"mine.yaml: {said}" in message(capsys, "--config", str(file))


def test_a_file_says_numbers_and_lists_as_people_write_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("learning_rate: 1e-6\nbeta: 1\neval_datasets: one.csv\nmax_rounds: 1:0,4:100\n")
    settings = flatten(grpo("--config", str(file)))
    assert (settings["learning_rate"], settings["beta"]) == (1e-6, 1.0)
    assert (settings["eval_datasets"], settings["max_rounds"]) == (["one.csv"], "1:0,4:100")


@pytest.mark.parametrize(("word", "ours"), [("false", "none"), ("False", "none"), ("true", "group")])
def test_scale_rewards_takes_trls_words_and_false_divides_by_nothing(word: str, ours: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"scale_rewards: {word}\n")
    for argv in (["--config", str(file)], ["--scale-rewards", word], [f"--scale_rewards={word}"]):
        assert grpo(*argv).grpo.scale_rewards == ours
    pays = batch_of([[0], [0]], reward=[1.0, 0.0], group=[0, 0])
    adv_BT, _ = advantages(pays, None, config=grpo("--scale-rewards", "false").grpo)
    assert adv_BT.tolist() == [[0.5], [-0.5]]


def test_evaluation_may_be_of_any_size_whatever_the_group_size() -> None:
    config = grpo("--num-generations", "8", "--eval-num-samples", "1", "--eval-num-problems", "3")
    assert (config.evaluation.eval_num_samples, config.evaluation.eval_num_problems) == (1, 3)


def test_help_loads_nothing_heavier_than_torch() -> None:
    code = (
        "import sys\n"
        "from algos.grpo import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'transformers', 'deepspeed', 'datasets', 'vllm', 'pettingzoo', 'math_verify', 'tensorboard'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--num-generations" in done.stdout
    assert "HEAVY []" in done.stdout


def test_defaults_of_the_class_are_valid() -> None:
    assert isinstance(TrainConfig(), TrainConfig)


@pytest.mark.parametrize(
    ("word", "share"), [("grpo", "trajectory"), ("dapo", "token"), ("bnpo", "token"), ("dr_grpo", "constant")]
)
def test_loss_type_is_trls_word_for_a_share(word: str, share: str) -> None:
    assert flatten(grpo("--loss-type", word))["share"] == share
    assert flatten(grpo(f"--loss_type={word}"))["share"] == share


def test_a_loss_type_that_is_no_share_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--loss-type sapo is no share of the loss; there are: grpo, dapo" in message(capsys, "--loss-type", "sapo")


def test_the_papers_multi_turn_settings_are_a_preset() -> None:
    from algos.turn_ppo import Config as TurnPPO

    argv = ["--preset", "rema-multi-turn", "--model-name-or-path", "a/model"]
    settings = flatten(parse(TurnPPO, argv, prog="test"))
    paper = {
        "problems_per_step": 128,
        "num_generations": 16,
        "num_minibatches": 4,
        "learning_rate": 1e-6,
        "max_rounds": 30,
        "max_completion_length": 512,
        "max_prompt_length": 4096,
        "ratio": "turn_geometric",
        "share": "turn_in_trajectory",
        "epsilon": 0.2,
        "epsilon_high": 0.2,
        "dual_clip": 3.0,
        "log_ratio_limit": 3.0,
        "beta": 0.0,
        "entropy_coef": 0.0,
        "weight_decay": 1e-2,
        "team": "shared",
        "train": "all",
    }
    assert {name: settings[name] for name in paper} == paper
    assert parse(TurnPPO, [*argv, "--num-minibatches", "2"], prog="test").learner.num_minibatches == 2


def test_the_preset_of_a_turn_ratio_is_refused_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    said = message(capsys, "--preset", "rema-multi-turn", *SMALL)
    assert "preset rema-multi-turn: ratio must be token or sequence, got 'turn_geometric'" in said


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--max-rounds", "4:9"), "ROUNDS:STEP pairs"),
        (("--success-rate", "0.8:0.2"), "LOW:HIGH must be between 0 and 1"),
        (("--success-rate", "often"), "is not LOW:HIGH"),
        (("--kl-estimator", "k1"), "expected gradient of logp - ref_logp is 0"),
        (("--credit", "none"), "there is no such credit"),
        (("--num-branches", "0"), "--num-branches must be at least 1"),
    ],
)
def test_settings_of_algorithms_and_groups_that_cannot_be_are_refused(
    argv: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in message(capsys, *argv)
