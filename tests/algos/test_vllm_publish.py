"""What a learner publishes is what vLLM then samples from: every ZeRO stage, tied and untied, and adapters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from algos import grpo
from algos.batch import Batch, make_batch
from algos.config import LearnerConfig
from algos.learner import Learner
from algos.metrics import logp_gap
from algos.publish import publish
from algos.scoring import Precision, Scorer, score_all
from algos.team import Policy
from rema_agents.checksum import checksum
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.remote import RemoteSampler
from rema_agents.types import Completion, SamplingParams
from rema_agents.vllm import VLLMSampler
from rema_agents.weight_files import read
from tests.algos.steps import steps_of
from tests.algos.test_vllm_training import TRAIN
from tests.algos.zero_worker import AGENTS, LOSS
from tests.rema_agents.contract import forward_logps
from tests.rema_agents.test_hf import ContinuedEnv
from tests.rema_agents.test_play import PROBLEMS
from tests.served import CODEC, needs_vllm, small_folder, small_model

pytestmark = [
    needs_vllm,
    pytest.mark.xdist_group("vllm"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # what vLLM imports
]

CPU = Precision(torch.device("cpu"), torch.float32)
TEMPERATURE = 0.7
PROMPT = (5, 6, 7, 20, 30)


@pytest.fixture(params=["tied", "untied"])
def started(request: pytest.FixtureRequest) -> Iterator[tuple[Path, Any]]:
    """A model's folder and a sampler on a vLLM that started with it: an engine of this process, or a server."""
    if request.param == "tied":
        engine = request.getfixturevalue("engine")
        yield engine.folder, engine.sampler
        engine.publish(small_model(tied=True), 0)  # as the tests after this one expect it
        return
    served = request.getfixturevalue("served")
    sampler = RemoteSampler(served.url)
    yield served.folder, sampler
    sampler.close()
    served.start_anew()


def played(policy: Policy) -> Batch:
    """Eight dialogues of the policy with itself."""
    params = SamplingParams(max_tokens=6, temperature=TEMPERATURE)
    episodes = play(
        ContinuedEnv, lambda n: {agent: policy.seat(agent, params, n, 400) for agent in AGENTS}, (PROBLEMS * 8)[:8]
    )
    assert {call.completion.weight_version for e in episodes for call in e.calls} == {policy.version}
    return make_batch(episodes, AGENTS)


def scored_by(weights: dict[str, Tensor], folder: Path, batch: Batch) -> Tensor:
    """Log-probabilities under a plain model with such weights."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.load_state_dict(weights, strict=False)
    return score_all(Scorer(model), batch, CPU.device, temperature=TEMPERATURE, tokens=4096)


def gap(batch: Batch, logp_BT: Tensor) -> float:
    return logp_gap(batch.with_tensors(old_logp_BT=logp_BT))["sampling/logp_gap_max"]


def copied(learner: Learner) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in learner.named_weights()}


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_vllm_agrees_with_the_learner_after_each_publish_and_not_with_the_weights_before(
    stage: int, started: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, sampler = started
    told = {"zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    (tmp_path / "zero.json").write_text(json.dumps(told))
    config = LearnerConfig(
        learning_rate=1e-2, gradient_checkpointing=False, micro_batch_tokens=4096, deepspeed=str(tmp_path / "zero.json")
    )
    learner = Learner(str(folder), config, CPU, temperature=TEMPERATURE)
    policy = Policy("policy", AGENTS, str(folder), CODEC, sampler, learner)
    publish(policy)
    for _ in range(2):
        batch, before = played(policy), copied(learner)
        batch = batch.with_tensors(
            old_logp_BT=learner.logp(batch),
            adv_BT=torch.tensor([1.0, -1.0])[batch.trajectory_B % 2, None].expand_as(batch.turn_BT),
            share_BT=batch.trained_BT / batch.trained_BT.sum(),
        )
        learner.update(batch, LOSS)
        publish(policy)
        after = played(policy)
        assert gap(after, learner.logp(after)) < 1e-4
        assert gap(after, scored_by(before, folder, after)) > 1e-2, "the check must be able to fail"


def asked(engine: VLLMSampler, role: str, temperature: float) -> Completion:
    params = SamplingParams(max_tokens=24, temperature=temperature)

    async def call() -> Completion:
        return await engine.sample(PROMPT, params, dialogue=0, gate=Gate(), adapter=role)

    return asyncio.run(call())


def says_what_the_merged_model_says(engine: VLLMSampler, role: str, merged: Path, base: Path) -> None:
    """Greedily the same tokens; sampled, the merged model's log-probabilities and not the base's."""
    model, plain = (AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32).eval() for f in (merged, base))
    greedy = model.generate(torch.tensor([PROMPT]), max_new_tokens=24, do_sample=False, eos_token_id=None)
    assert asked(engine, role, 0.0).token_ids == tuple(greedy[0, len(PROMPT) :].tolist())
    said = asked(engine, role, TEMPERATURE)
    for other, far in ((model, False), (plain, True)):
        logps = forward_logps(other, PROMPT, said.token_ids, TEMPERATURE)
        worst = max(abs(a - b) for a, b in zip(said.logps, logps, strict=True))
        assert worst > 1e-2 if far else worst < 1e-4


def test_two_roles_train_as_adapters_on_one_engine_which_also_loads_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.lora.request import LoRARequest

    base, run, close = small_folder(tmp_path / "model", tied=True), tmp_path / "run", VLLMSampler.close
    engines: list[VLLMSampler] = []
    monkeypatch.setattr(VLLMSampler, "close", lambda engine: engines.append(engine))
    grpo.main([*TRAIN, "--sampler", "vllm", "--team", "separate", "--lora-rank", "4", "--max-steps", "3",
               "--model-name-or-path", str(base), "--output-dir", str(run)])  # fmt: skip
    (engine,) = set(engines)
    for role in ("meta", "reasoner"):
        steps = steps_of(run)
        assert max(step[f"{role}/sampling/logp_gap_max"] for step in steps) < 1e-4
        assert max(step[f"{role}/grad_norm"] for step in steps) > 0
        says_what_the_merged_model_says(engine, role, run / "final" / role, base)
    assert engine._adapters is not None
    saved = {role: run / "final" / role / "adapter" for role in ("meta", "reasoner")}
    taken = {role: checksum(read(str(folder), CPU.device)) for role, folder in saved.items()}
    assert {role: engine.adapter_checksum(role) for role in saved} == taken
    assert taken["meta"] != taken["reasoner"], "the check must be able to fail"
    monkeypatch.setattr(engine._adapters, "request", lambda role: LoRARequest(f"{role}'s", 9, str(saved[role])))
    says_what_the_merged_model_says(engine, "meta", run / "final" / "meta", base)
    close(engine)
