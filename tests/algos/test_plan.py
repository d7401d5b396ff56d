"""The plan of a dry run, against figures worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from algos.plan import Gpus, Shape

QWEN_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    """A folder with a config.json alone."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN_7B))
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, dict[str, float]]:
    """title -> part -> GB, the total under `total`."""
    from algos.grpo import main

    main(["--env", "math_v0", "--dry-run", *argv])
    parts: dict[str, dict[str, float]] = {}
    title = ""
    for line in capsys.readouterr().out.splitlines():
        if not line.endswith(" GB") or "GPUs of" in line:
            continue
        name, size = line[:40].strip(), float(line[40:].removesuffix(" GB"))
        title = title if line.startswith(" ") else name
        parts.setdefault(title, {})[name if line.startswith(" ") else "total"] = size
    return parts


def test_parameters_are_counted_exactly(qwen: Path, embedded: Path) -> None:
    assert Shape.read(str(qwen)).parameters == 7_615_616_512
    model = AutoModelForCausalLM.from_pretrained(embedded)
    assert Shape.read(str(embedded)).parameters == sum(p.numel() for p in model.parameters())


def test_the_plan_of_a_7b_model_on_four_gpus_is_the_one_worked_by_hand(
    qwen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = planned(capsys, "--model-name-or-path", str(qwen), "--zero-stage", "3", "--gpus", "4x48GB")
    P = 7.615616512  # billion parameters: 15.23 GB in bfloat16, a quarter of everything on each GPU
    tokens = 16_384
    update = {
        "weights": 2 * P / 4,
        "gradients": 4 * P / 4,
        "master weights": 4 * P / 4,
        "optimizer states": 8 * P / 4,
        "activations": 2 * tokens * (3584 * 28 + 16 * 3584 + 5 * 18944) / 1e9,
        "logits": 3 * 4 * 2**24 / 1e9,
        "libraries": 1.5,
    }
    sampling = {
        "weights": 2 * P / 4,
        "gradients": 4 * P / 4,
        "sampler weights": 2 * P,
        "keys and values": 16 * (4096 + 512) * 2 * 28 * 512 * 2 / 1e9,
        "libraries": 1.5,
    }
    for title, expected in (("GPU, update", update), ("GPU, sampling", sampling)):
        total = parts[title].pop("total")
        assert parts[title] == {name: pytest.approx(size, abs=0.006) for name, size in expected.items()}
        assert total == pytest.approx(sum(expected.values()), abs=0.006)
    assert parts["host"]["optimizer states and master weights"] == pytest.approx(12 * P, abs=0.006)


def test_the_same_on_one_small_gpu_is_refused_and_the_largest_term_named(
    qwen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    with pytest.raises(SystemExit) as exit_:
        main(["--dry-run", "--model-name-or-path", str(qwen), "--zero-stage", "3", "--gpus", "1x24GB"])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert "there are 24 GB; the largest term is optimizer states, 60.9 GB; spread it" in said
    assert "the next is gradients, 30.5 GB; spread it" in said


def test_lora_fits_a_7b_model_on_four_small_gpus(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--model-name-or-path", str(qwen), "--zero-stage", "3", "--gpus", "4x24GB", "--lora-rank", "16"]
    argv += ["--vllm-gpu-memory-utilization", "0.8"]
    parts = planned(capsys, *argv, "--max-prompt-length", "2048")
    adapters = 16 * 28 * (2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18944))
    assert parts["GPU, update"]["optimizer states"] == pytest.approx(8 * adapters / 4 / 1e9, abs=0.006)
    assert parts["GPU, update"]["total"] < 24


def test_a_7b_pair_with_adapters_fits_one_small_gpu(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--model-name-or-path", str(qwen), "--team", "separate", "--lora-rank", "16", "--gpus", "1x24GB"]
    argv += ["--micro-batch-tokens", "8192"]
    parts = planned(capsys, *argv, "--vllm-gpu-memory-utilization", "0.85")
    P = 7.615616512
    adapters = 2 * 16 * 28 * (2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18944)) / 1e9  # of both roles
    keys_and_values = 16 * (4096 + 512) * 2 * 28 * 512 * 2 / 1e9
    sampling = {
        "adapters": 2 * adapters,
        "sampler weights": 2 * P,
        "keys and values": keys_and_values,
        "libraries": 1.5,
    }
    sampling |= {"master weights": 4 * adapters, "optimizer states": 8 * adapters}
    assert parts["GPU, sampling"].pop("total") == pytest.approx(sum(sampling.values()), abs=0.006)
    assert parts["GPU, sampling"] == {name: pytest.approx(size, abs=0.006) for name, size in sampling.items()}
    assert parts["GPU, update"]["weights"] == pytest.approx(2 * P, abs=0.006)
    assert parts["GPU, update"]["total"] < 24
    assert parts["host"]["base under adapters"] == parts["host"]["sampler asleep"] == pytest.approx(2 * P, abs=0.006)


def test_of_two_policies_only_the_one_that_learns_has_its_states_on_the_gpu(
    qwen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--model-name-or-path", str(qwen), "--team", "separate", "--zero-stage", "3", "--gpus", "4x64GB"]
    argv += ["--vllm-gpu-memory-utilization", "0.75", "--micro-batch-tokens", "8192"]
    one = planned(capsys, *argv)
    both = planned(capsys, *argv, "--gpus", "4x128GB", "--no-offload-while-sampling")
    for part, size in (("optimizer states", 8), ("master weights", 4)):
        assert one["GPU, update"][part] == pytest.approx(size * 7.615616512 / 4, abs=0.006)
        assert both["GPU, update"][part] == pytest.approx(2 * one["GPU, update"][part], abs=0.02)
    buffers = [plan[phase]["gradients"] for plan in (one, both) for phase in ("GPU, update", "GPU, sampling")]
    assert buffers == pytest.approx([2 * 4 * 7.615616512 / 4] * 4, abs=0.006)
    assert one["host"]["optimizer states and master weights"] == pytest.approx(2 * 12 * 7.615616512, abs=0.01)


def test_a_share_of_the_gpu_that_does_not_hold_vllm_is_refused_with_the_one_that_does(
    qwen: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    argv = ["--model-name-or-path", str(qwen), "--lora-rank", "16", "--gpus", "1x24GB", "--micro-batch-tokens", "8192"]
    with pytest.raises(SystemExit):
        main(["--dry-run", *argv])
    said = capsys.readouterr().err
    assert "--vllm-gpu-memory-utilization 0.5 gives vLLM 12.0 GB of 24" in said
    assert "need 19.5 GB: raise it to 0.82" in said


def test_a_server_elsewhere_takes_the_sampler_off_the_gpu(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--model-name-or-path", str(qwen), "--zero-stage", "3", "--gpus", "4x48GB", "--sampler", "remote"]
    parts = planned(capsys, *argv, "--server", "http://localhost:8000/v1")
    assert not parts["GPU, sampling"].keys() & {"sampler weights", "keys and values"}


def test_the_plan_is_for_the_gpus_that_are_named(qwen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from algos.grpo import main

    with pytest.raises(SystemExit):
        main(["--dry-run", "--model-name-or-path", str(qwen), "--zero-stage", "3", "--gpus", "3x80GB"])
    assert "--problems-per-step 128 does not divide by 3 ranks" in capsys.readouterr().err


def test_gpus_without_a_dry_run_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from algos.grpo import main

    with pytest.raises(SystemExit) as exit_:
        main(["--gpus", "4x48GB", "--output-dir", str(tmp_path / "run")])
    assert exit_.value.code == 2
    assert "--gpus is for --dry-run" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_offload_moves_optimizer_states_to_the_host(
    qwen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    (tmp_path / "offload.json").write_text(json.dumps(told))
    argv = ["--model-name-or-path", str(qwen), "--deepspeed", str(tmp_path / "offload.json"), "--gpus", "2x80GB"]
    parts = planned(capsys, *argv)
    assert "optimizer states" not in parts["GPU, update"]
    assert parts["host"]["optimizer states and master weights"] == pytest.approx(12 * 7.615616512, abs=0.006)


@pytest.mark.parametrize("text", ["48GB", "0x48GB", "4x48", "four"])
def test_gpus_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not COUNTxSIZE"):
        Gpus.parse(text)


@pytest.mark.parametrize("told", ["{", "[]", '{"num_attention_heads": 0, "hidden_size": 1}', '{"hidden_size": "x"}'])
def test_a_config_that_is_none_is_named(told: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(told)
    with pytest.raises(ValueError, match=r"config\.json (is not the config\.json of a model|has no)"):
        Shape.read(str(tmp_path))


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json, which does not exist"):
        Shape.read(str(tmp_path))
