"""Adapters on one engine: what it is asked, in which order. (What it answers: `tests.algos.test_vllm_publish`.)"""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rema_agents.checksum import Counted, checksum
from rema_agents.vllm import Reload, VLLMSampler
from rema_agents.vllm.adapters import Adapters, AdapterSampler
from rema_agents.weight_files import read
from tests.rema_agents.contract import PROMPTS, ask_all, params
from tests.rema_agents.test_vllm import FakeEngine, on_gpu

__all__ = ["on_gpu"]  # a fixture


class Engine(FakeEngine):
    """Also notes under which adapter it is asked, and tells the checksum of what lies in the folder of one it takes."""

    async def collective_rpc(self, method: str, args: tuple[str, int, str]) -> list[int]:
        name, _, folder = args
        self.asked.append(f"{method} {name}")
        return [checksum(read(folder, torch.device("cpu")))]

    async def generate(self, *arguments: Any, lora_request: Any) -> Any:  # type: ignore[override]
        self.asked.append(f"generate {lora_request}")
        said = types.SimpleNamespace(
            token_ids=[1], logprobs=[{1: types.SimpleNamespace(logprob=0.0)}], finish_reason="stop"
        )
        yield types.SimpleNamespace(outputs=[said], num_cached_tokens=0)


@pytest.fixture
def engine(
    on_gpu: tuple[VLLMSampler, FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> tuple[Engine, AdapterSampler, AdapterSampler]:
    """An engine that only notes what it is asked, and the samplers of two roles on it."""
    plain, _ = on_gpu
    folder, noting = plain._arguments["model"], Engine()
    plain.close()
    monkeypatch.setattr(VLLMSampler, "_new_engine", lambda self: noting)
    monkeypatch.setattr(Adapters, "request", lambda self, name: name)
    shared = VLLMSampler(folder, adapters=Adapters(("meta", "reasoner"), rank=4, alpha=32))
    return noting, AdapterSampler(shared, "meta"), AdapterSampler(shared, "reasoner")


def test_a_sleeping_engine_keeps_the_base_and_is_given_every_adapter_again(
    engine: tuple[Engine, AdapterSampler, AdapterSampler],
) -> None:
    noting, meta, reasoner = engine
    meta.update_weights([("a", torch.ones(2))], 3)
    reasoner.update_weights([("a", torch.ones(2))], 5)
    given = [*noting.asked]
    for sampler in (meta, reasoner):
        sampler.sleep()
    versions = [
        got.weight_version for sampler in (meta, reasoner) for got in ask_all(sampler, [(PROMPTS[0], params())])
    ]
    meta.close()
    reasoner.close()
    assert versions == [3, 5]
    assert given == ["take_adapter meta", "reset_prefix_cache", *woken()[1:3], "reset_prefix_cache"]
    assert noting.asked[len(given) :] == [
        "sleep 1",
        *woken(),
        "reset_prefix_cache",
        "generate meta",
        "generate reasoner",
        "shutdown",
        "close sockets",
    ]


def woken() -> list[str]:
    return ["wake_up ['weights']", "take_adapter meta", "take_adapter reasoner", "wake_up ['kv_cache']"]


def test_an_adapters_checksum_is_that_of_its_files_in_the_engine(
    engine: tuple[Engine, AdapterSampler, AdapterSampler],
) -> None:
    _, meta, reasoner = engine
    sent = Counted(lambda: [("a", torch.tensor([1.0, 2.0]))])
    meta.update_weights(sent, 1)
    assert (meta.checksum(), reasoner.checksum()) == (sent.checksum, None)
    adapters = meta._engine._adapters
    assert adapters is not None
    save_file({"a": torch.tensor([1.0, 2.5])}, Path(adapters._folder, "meta", "adapter_model.safetensors"))
    with pytest.raises(RuntimeError, match="the files of adapter meta no longer hold what was published last"):
        reasoner.update_weights(sent, 1)
    meta.close()


def test_an_adapter_is_written_as_peft_has_it() -> None:
    adapters = Adapters(("meta",), rank=9, alpha=18)
    assert not adapters.ready
    adapters.publish("meta", [("base_model.model.x.lora_A.weight", torch.ones(2))])
    assert adapters.ready
    folder = Path(adapters._folder, "meta")
    assert list(load_file(folder / "adapter_model.safetensors")) == ["base_model.model.x.lora_A.weight"]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (9, 18, "LORA")
    assert adapters.settings == {"enable_lora": True, "max_lora_rank": 16, "max_loras": 1}
    adapters.remove()
    assert not folder.exists()


@pytest.mark.parametrize("taken", [True, False])
def test_an_adapter_that_vllm_does_not_take_is_an_error(taken: bool, tmp_path: Path) -> None:
    pytest.importorskip("vllm")

    class Worker(Reload):
        def add_lora(self, request: Any) -> bool:
            assert (request.lora_name, request.lora_int_id, request.load_inplace) == ("meta", 1, True)
            return taken

    save_file({"a": torch.ones(2)}, tmp_path / "adapter_model.safetensors")
    if taken:
        assert Worker().take_adapter("meta", 1, str(tmp_path)) == checksum([("a", torch.ones(2))])
    else:
        with pytest.raises(RuntimeError, match="vLLM did not take adapter meta from"):
            Worker().take_adapter("meta", 1, str(tmp_path))
