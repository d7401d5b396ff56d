"""A model folder is loaded whole, or refused in one message that names folder and tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from rema_agents.hf import HFSampler
from rema_agents.pretrained import _weight_files, check_folder, load_causal_lm
from rema_agents.tiny import MODEL_FOLDER

DOWN = "model.layers.0.mlp.down_proj.weight"
Weights = dict[str, Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the embedded model, whose head is tied to its embeddings."""
    return Path(shutil.copytree(MODEL_FOLDER, tmp_path / "model"))


def rewrite(folder: Path, change: Callable[[Weights], Weights]) -> None:
    save_file(change(load_file(MODEL_FOLDER / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})


def without(name: str) -> Callable[[Weights], Weights]:
    return lambda weights: {n: w for n, w in weights.items() if n != name}


def with_number(value: float) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {DOWN: weights[DOWN].index_fill(0, torch.tensor([3]), value)}


FAULTS = {
    "a tensor is missing": (without(DOWN), rf"model lacks weights that its config.json asks for: {DOWN}$"),
    "the tied one is missing": (without("model.embed_tokens.weight"), r"lacks weights .*model\.embed_tokens\.weight"),
    "a tensor is narrow": (lambda w: w | {DOWN: w[DOWN][:, :9].clone()}, r"down_proj\.weight is \[96, 9\] instead of"),
    "a number is NaN": (with_number(float("nan")), rf"damaged weights: numbers in {DOWN} are not finite"),
    "a number is infinite": (with_number(float("-inf")), rf"damaged weights: numbers in {DOWN} are not finite"),
}


@pytest.mark.parametrize("load", [load_causal_lm, check_folder, HFSampler.from_pretrained])
@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_are_not_whole_are_refused_by_name(
    load: Callable[[Path], object], fault: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, said = FAULTS[fault]
    rewrite(folder, change)
    with pytest.raises(ValueError, match=said):
        load(folder)
    assert "REPORT" not in capsys.readouterr().err


@pytest.mark.parametrize("load", [load_causal_lm, check_folder])
@pytest.mark.parametrize("left", [0, 1000, None])
def test_files_cut_short_or_gone_are_refused(load: Callable[[Path], object], left: int | None, folder: Path) -> None:
    file = folder / "model.safetensors"
    if left is None:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(ValueError, match="model: its weights cannot be read: "):
        load(folder)


@pytest.mark.parametrize("index", ["{", "{}", json.dumps({"weight_map": {DOWN: "model-2.safetensors"}})])
def test_an_index_that_leads_nowhere_is_refused(index: str, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ValueError, match="model: its weights cannot be read: "):
        load_causal_lm(folder)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        torch.distributed.DistBackendError("NCCL communicator was aborted"),
        RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:3411"),
    ],
)
def test_what_is_no_fault_of_the_files_is_told_as_it_is(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **told: object) -> None:
        raise error

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", fails)
    with pytest.raises(type(error)) as raised:
        load_causal_lm(MODEL_FOLDER)
    assert raised.value is error


@pytest.mark.parametrize("load", [load_causal_lm, check_folder])
def test_what_the_model_has_no_place_for_is_left_out_with_a_warning(
    load: Callable[[Path], object], folder: Path
) -> None:
    rewrite(folder, lambda weights: weights | {"score.weight": torch.zeros(2, 96)})
    with pytest.warns(UserWarning, match=r"no place for are left out: score\.weight"):
        load(folder)


def test_a_folder_that_is_whole_is_loaded_as_it_is(folder: Path) -> None:
    check_folder(folder)
    held = load_file(folder / "model.safetensors")
    loaded = dict(load_causal_lm(folder, dtype=torch.float32).named_parameters())
    assert loaded.keys() == held.keys()
    assert all(torch.equal(loaded[name], held[name]) for name in held)


def parted(folder: Path) -> Weights:
    """The folder's weights in two files under an index, with a copy beside them that no index names; the first part."""
    weights = load_file(MODEL_FOLDER / "model.safetensors")
    parts: dict[str, Weights] = {"part-1.safetensors": {DOWN: weights.pop(DOWN)}, "part-2.safetensors": weights}
    for name, part in parts.items():
        save_file(part, folder / name, {"format": "pt"})
    files = {tensor: name for name, part in parts.items() for tensor in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")
    return parts["part-1.safetensors"]


def test_of_a_folder_with_an_index_the_files_that_it_names_are_looked_at(folder: Path) -> None:
    part = parted(folder)
    (folder / "consolidated.safetensors").write_bytes(b"none of them")
    check_folder(folder)
    save_file(with_number(float("nan"))(part), folder / "part-1.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=f"numbers in {DOWN} are not finite"):
        check_folder(folder)


def test_of_a_hub_name_those_files_alone_are_fetched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fetched(name: str, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    assert [path.name for path in _weight_files("owner/model")] == ["model.safetensors"]
    parted(folder)
    assert [path.name for path in _weight_files("owner/model")] == ["part-1.safetensors", "part-2.safetensors"]
    index = ["model.safetensors.index.json"]
    assert asked == [index, ["model*.safetensors"], index, ["part-1.safetensors", "part-2.safetensors"]]


def test_an_adapter_beside_its_base_is_loaded_and_checked(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(load_causal_lm(folder), LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    adapted.save_pretrained(folder)
    assert any(".lora_A." in name for name, _ in load_causal_lm(folder).named_parameters())
    weights = load_file(folder / "adapter_model.safetensors")
    lost = next(iter(weights))
    save_file(without(lost)(weights), folder / "adapter_model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="lacks weights"):
        load_causal_lm(folder)


def test_an_engine_is_not_started_on_a_folder_that_is_not_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rema_agents.vllm import VLLMSampler

    monkeypatch.setattr(VLLMSampler, "_new_engine", lambda self: pytest.fail("it was started"))
    rewrite(folder, with_number(float("nan")))
    with pytest.raises(ValueError, match=f"numbers in {DOWN} are not finite"):
        VLLMSampler(folder)
