"""Adapters: one a policy, on one base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from algos.algorithm import Metrics, Out
from algos.batch import Batch, make_batch
from algos.config import LearnerConfig
from algos.learner import AdaptersOff, Learner
from algos.scoring import Precision
from rema_agents.types import Episode
from tests.algos.steps import steps_of
from tests.algos.zero_worker import AGENTS, LOSS, stored_batch

CPU = Precision(torch.device("cpu"), torch.float32)
PLAIN = LearnerConfig(learning_rate=1e-2, gradient_checkpointing=False)
FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "4"]
FLAGS += ["--eval-steps", "0", "--num-completions-to-print", "0", "--team", "separate", "--lora-rank", "4"]


@pytest.fixture
def pair(embedded: Path) -> tuple[Learner, Learner]:
    """Two policies on one base."""
    meta = Learner(str(embedded), PLAIN, CPU, lora=(4, 32), name="meta")
    return meta, Learner(str(embedded), PLAIN, CPU, lora=(4, 32), name="reasoner", base=meta)


@pytest.fixture
def stored(episodes: list[Episode], tmp_path: Path) -> Path:
    from rema_agents.episodes import write_episodes

    write_episodes(tmp_path / "episodes.jsonl", episodes)
    return tmp_path / "episodes.jsonl"


def test_an_update_changes_its_own_adapter_and_nothing_else(pair: tuple[Learner, Learner], stored: Path) -> None:
    meta, reasoner = pair
    batch = stored_batch(stored)
    batch = batch.with_tensors(old_logp_BT=meta.logp(batch))
    before = {name: p.detach().clone() for name, p in meta.model.named_parameters()}
    meta.update(batch, LOSS)
    changed = {name for name, p in meta.model.named_parameters() if not torch.equal(p, before[name])}
    assert changed
    assert all(".lora_B.meta." in name for name in changed)  # B starts at 0, so A has no gradient yet
    assert torch.equal(reasoner.logp(batch), batch.old_logp_BT)
    assert not torch.equal(meta.logp(batch), batch.old_logp_BT)


def test_the_reference_is_the_base_with_adapters_off(pair: tuple[Learner, Learner], stored: Path) -> None:
    meta, _ = pair
    batch = stored_batch(stored)
    start = meta.logp(batch)
    meta.update(batch.with_tensors(old_logp_BT=start), LOSS)
    assert torch.equal(AdaptersOff(meta).logp(batch), start)
    assert not torch.equal(meta.logp(batch), start)


def test_an_adapter_may_be_called_as_a_module_of_the_model(embedded: Path) -> None:
    learner = Learner(str(embedded), PLAIN, CPU, lora=(4, 32), name="mlp")
    assert learner.adapter is not None
    names = {id(p): name for name, p in learner.model.named_parameters()}
    assert all(".lora_" in names[id(p)] for p in learner.adapter.parameters())


def test_only_adapters_have_optimizer_states(pair: tuple[Learner, Learner], stored: Path) -> None:
    meta, reasoner = pair
    batch = stored_batch(stored)
    meta.update(batch.with_tensors(old_logp_BT=meta.logp(batch)), LOSS)
    assert meta.adapter is not None
    own = sum(p.numel() for p in meta.adapter.parameters())
    states = [state for state in meta.engine.optimizer.state.values() if "exp_avg" in state]
    assert sum(state["exp_avg"].numel() for state in states) == own
    assert not reasoner.engine.optimizer.state


@pytest.mark.parametrize("stage", [0, 2])
def test_critics_on_one_base_are_each_policys_own(stage: int, embedded: Path, stored: Path) -> None:
    config = LearnerConfig(learning_rate=1e-2, gradient_checkpointing=False, zero_stage=stage)  # type: ignore[arg-type]
    meta = Learner(str(embedded), config, CPU, lora=(4, 32), name="meta", needs=("value",))
    reasoner = Learner(str(embedded), config, CPU, lora=(4, 32), name="reasoner", needs=("value",), base=meta)
    batch = stored_batch(stored)
    batch = batch.with_tensors(old_logp_BT=meta.logp(batch))

    def loss(out: Out, micro: Batch) -> tuple[Tensor, Metrics]:
        assert out.value_BK is not None
        return ((out.value_BK - 1) ** 2).mean(), {}

    meta.update(batch, loss)
    assert meta.values(batch).abs().max() > 1e-3
    assert not reasoner.values(batch).any()
    reasoner.update(batch, loss)
    assert reasoner.values(batch).abs().max() > 1e-3


def test_a_base_that_rests_is_in_host_memory_and_comes_back_as_it_was(
    pair: tuple[Learner, Learner], stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta, reasoner = pair
    assert meta.adapter is not None
    batch = stored_batch(stored)
    batch = batch.with_tensors(old_logp_BT=meta.logp(batch))
    weight = meta.adapter.model.get_input_embeddings().weight
    before, place = weight.detach().clone(), weight.data_ptr()
    monkeypatch.setattr(Learner, "_may_rest", True)
    meta.rest()
    assert weight.data_ptr() != place
    merged = dict(meta.named_weights())
    assert torch.equal(merged["model.embed_tokens.weight"], before)
    in_host = weight.data_ptr()
    reasoner.update(batch, LOSS)
    assert weight.data_ptr() != in_host
    assert torch.equal(weight, before)
    assert torch.equal(meta.logp(batch), batch.old_logp_BT)
    reasoner.rest()
    assert weight.data_ptr() == in_host


def test_roles_that_start_from_different_weights_have_no_base_in_common(
    embedded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos.grpo import main

    for role in ("meta", "reasoner"):
        shutil.copytree(embedded, tmp_path / "pair" / role)
    argv = ["--model-name-or-path", str(tmp_path / "pair"), "--output-dir", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as exit_:
        main([*FLAGS, *argv])
    assert exit_.value.code == 2
    assert "puts the adapters of all roles on one base, but they start from 2 models" in capsys.readouterr().err


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_every_stage_that_shares_a_base_trains_both(stage: int, embedded: Path, stored: Path) -> None:
    config = LearnerConfig(learning_rate=1e-2, gradient_checkpointing=False, zero_stage=stage)  # type: ignore[arg-type]
    meta = Learner(str(embedded), config, CPU, lora=(4, 32), name="meta")
    reasoner = Learner(str(embedded), config, CPU, lora=(4, 32), name="reasoner", base=meta)
    batch = stored_batch(stored)
    batch = batch.with_tensors(old_logp_BT=meta.logp(batch))
    for learner in (meta, reasoner, meta):
        assert learner.update(batch, LOSS)["grad_norm"] > 0
    assert not torch.equal(meta.logp(batch), reasoner.logp(batch))
    assert not torch.equal(reasoner.logp(batch), batch.old_logp_BT)


def test_a_run_saves_merged_weights_and_adapters_that_load_in_peft(
    embedded: Path, episodes: list[Episode], tmp_path: Path
) -> None:
    from algos.grpo import main

    run = tmp_path / "run"
    main([*FLAGS, "--learning-rate", "1e-2", "--max-steps", "2", "--save-steps", "2", "--output-dir", str(run)])
    assert max(line[f"{role}/sampling/logp_gap_max"] for line in steps_of(run) for role in ("meta", "reasoner")) < 1e-4
    batch = make_batch(episodes[:2], AGENTS)
    for role in ("meta", "reasoner"):
        folder = run / "final" / role
        merged = AutoModelForCausalLM.from_pretrained(folder).eval()
        base = AutoModelForCausalLM.from_pretrained(embedded)
        adapted = PeftModel.from_pretrained(base, folder / "adapter").eval()
        with torch.no_grad():
            apart, whole = adapted(input_ids=batch.ids_BT).logits, merged(input_ids=batch.ids_BT).logits
            plain = AutoModelForCausalLM.from_pretrained(embedded)(input_ids=batch.ids_BT).logits
        assert torch.allclose(apart, whole, atol=1e-3)
        assert not torch.allclose(plain, whole, atol=1e-2)
        assert set(load_file(folder / "model.safetensors")) == set(load_file(embedded / "model.safetensors"))


def test_a_resumed_run_with_adapters_is_the_run_that_never_stopped(tmp_path: Path) -> None:
    from algos.grpo import main

    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    main([*FLAGS, "--max-steps", "2", "--save-steps", "1", "--output-dir", str(straight)])
    main([*FLAGS, "--max-steps", "1", "--save-steps", "1", "--output-dir", str(resumed)])
    more = ["--max-steps", "2", "--save-steps", "1", "--resume-from-checkpoint", "latest"]
    main([*FLAGS, *more, "--output-dir", str(resumed)])
    for role in ("meta", "reasoner"):
        first, again = (
            load_file(run / "final" / role / "adapter" / "adapter_model.safetensors") for run in (straight, resumed)
        )
        assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_rank_above_that_of_every_layer_is_refused(embedded: Path) -> None:
    with pytest.raises(ValueError, match=r"--lora-rank 97: no layer of .* has a rank above 96"):
        Learner(str(embedded), PLAIN, CPU, lora=(97, 32))


def test_zero_3_cannot_part_a_base_that_two_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from algos.grpo import main

    with pytest.raises(SystemExit):
        main([*FLAGS, "--zero-stage", "3", "--output-dir", str(tmp_path / "run")])
    assert "which --zero-stage 3 cannot part: use 2" in capsys.readouterr().err


@pytest.mark.long
def test_adapters_alone_learn_the_task(tmp_path: Path) -> None:
    from algos.grpo import main

    argv = ["--env", "math_v0", "--seed", "0", "--team", "separate", "--lora-rank", "16", "--learning-rate", "1.5e-3"]
    argv += ["--max-steps", "100", "--eval-steps", "0", "--save-steps", "0", "--output-dir", str(tmp_path / "run")]
    main(argv)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["accuracy_before"] <= 0.50
    assert summary["accuracy_after"] >= max(0.85, summary["accuracy_before"] + 0.35)
