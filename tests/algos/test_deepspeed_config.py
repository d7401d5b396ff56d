"""What DeepSpeed is told, and what is refused before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from algos.config import LearnerConfig
from algos.deepspeed_config import deepspeed_config, zero_stage


def config(tmp_path: Path, told: Any, **settings: Any) -> LearnerConfig:
    path = tmp_path / "ds.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    return LearnerConfig(deepspeed=str(path), **settings)


def test_our_flags_stand_where_the_file_says_nothing_or_auto(tmp_path: Path) -> None:
    told = {
        "train_batch_size": "auto",
        "gradient_clipping": "auto",
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}} and {"params": {"lr": "auto"}},
        "zero_optimization": {"stage": "auto", "reduce_bucket_size": 1000},
    }
    made = deepspeed_config(config(tmp_path, told, zero_stage=2, max_grad_norm=0.5), bf16=True, ranks=2)
    assert made["zero_optimization"] == {"stage": 2, "overlap_comm": False, "reduce_bucket_size": 1000}
    assert made["gradient_clipping"] == 0.5
    assert made["bf16"] == {"enabled": True}
    assert "optimizer" not in made
    assert "train_batch_size" not in made


def test_the_file_decides_the_stage_where_the_flag_does_not(tmp_path: Path) -> None:
    assert zero_stage(config(tmp_path, {"zero_optimization": {"stage": 3}})) == 3
    assert zero_stage(LearnerConfig(zero_stage=1)) == 1


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1},
            r"train_batch_size 8 is not train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps 1 x 1 rank = 2",
        ),
        ({"optimizer": {"type": "Lamb"}}, "take it out and use --optimizer and --learning-rate"),
        ({"scheduler": {"type": "WarmupLR"}}, "take it out and use --lr-scheduler-type"),
        ({"fp16": {"enabled": True}}, "use --bf16"),
        ({"bf16": {"enabled": True}}, "sets bf16 to True, but --bf16 is False"),
        ({"gradient_clipping": 0.1}, "sets gradient_clipping to 0.1, but --max-grad-norm is 1.0"),
        ({"zero_optimization": {"stage": 1}}, "sets stage to 1, but --zero-stage is 2"),
        ("{", "is not JSON"),
        ("\x00", "is not JSON"),
        ("[1]", "holds no JSON object"),
        ({"train_batch_size": "x"}, 'train_batch_size is a number, got "x"'),
        ({"fp16": True}, "fp16 must be an object, got true"),
        ({"zero_optimization": 2}, "zero_optimization must be an object, got 2"),
        ({"zero_optimization": {"stage": "2"}}, 'the stage of zero_optimization is 0, 1, 2 or 3, got "2"'),
        ({"zero_optimization": {"stage": 7}}, "the stage of zero_optimization is 0, 1, 2 or 3, got 7"),
        ({"zero_optimization": {"stage": None}}, "the stage of zero_optimization is 0, 1, 2 or 3, got null"),
        ({"zero_optimizations": {"stage": 2}}, "there is no 'zero_optimizations'; 'zero_optimization' is what"),
        (
            {"zero_optimization": {"offload_param": {"device": "cpu"}}},
            "offload_param needs ZeRO stage 3 or higher, got 2",
        ),
        ({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}}, "offload_optimizer on nvme needs nvme_path"),
        ({"managed_gradient_accumulation": True}, "take it out and leave it to the learner"),
        ({"compute_grad_norm": False}, "turns compute_grad_norm off; take it out"),
        ({"data_types": {"grad_accum_dtype": "bf16"}}, "take it out and leave it to the learner"),
        ({"tensor_parallel": {"autotp_size": 2}}, "take it out and part the model with --zero-stage 3"),
    ],
)
def test_contradictions_are_refused_with_the_numbers(told: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        deepspeed_config(config(tmp_path, told, zero_stage=2), bf16=False, ranks=1)


def test_a_contradiction_is_one_message_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    made = config(tmp_path, {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2})
    with pytest.raises(SystemExit) as exit_:
        main(["--deepspeed", str(made.deepspeed), "--output-dir", str(tmp_path / "run")])
    assert exit_.value.code == 2
    assert "train_batch_size 8 is not" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_deepspeed_alone_knows_to_be_wrong_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    made = config(tmp_path, {"zero_optimization": {"stage": 2, "reduce_bucket": 3}})
    with pytest.raises(SystemExit) as exit_:
        main(["--deepspeed", str(made.deepspeed), "--output-dir", str(tmp_path / "run")])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert "ds.json: 1 validation error for DeepSpeedZeroConfig reduce_bucket Extra inputs are not permitted" in said
    assert not (tmp_path / "run").exists()


def test_an_offload_without_its_stage_is_refused(tmp_path: Path) -> None:
    told = {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}
    with pytest.raises(ValueError, match="offload_optimizer needs ZeRO stage 1 or higher, got 0"):
        deepspeed_config(config(tmp_path, told), bf16=False, ranks=1)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.json: No such file"):
        deepspeed_config(LearnerConfig(deepspeed=str(tmp_path / "nowhere.json")), bf16=False, ranks=1)
