"""Every ZeRO stage, on one process and on two, is plain PyTorch: first gradient and weights after five updates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from algos.algorithm import Out
from algos.presets import EMBEDDED
from rema_agents.episodes import write_episodes
from rema_agents.types import Episode
from tests.algos.zero_worker import LOSS, TEMPERATURE, stored_batch

RATE = EMBEDDED["learning_rate"]
GRADIENT = {"optimizer": "sgd", "learning_rate": 100.0, "max_grad_norm": 0, "updates": 1}
"""One step of plain descent without clipping is the gradient, times a rate that drowns the weights' own rounding."""
RULES: dict[str, dict[str, Any]] = {
    "gradient": GRADIENT,
    "adamw": {"learning_rate": RATE},
    "sgd": {"optimizer": "sgd", "learning_rate": RATE},
}
WITHIN = {"gradient": 1e-5, "adamw": 1e-2, "sgd": 1e-4}
ACCUMULATION = {"whole": 10**6, "in-four": 450}


def configurations(folder: Path, stages: Sequence[int]) -> dict[str, dict[str, Any]]:
    """name -> settings: every stage, whole and in four micro-batches a rank, gradient and both optimizers."""
    parted = folder / "zero3.json"
    parted.write_text(json.dumps({"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}}))
    offload = folder / "offload.json"
    cpu = {"offload_optimizer": {"device": "cpu"}}
    offload.write_text(json.dumps({"zero_optimization": {"stage": 2, **cpu}}))
    made = {}
    for stage in stages:
        of_stage = {"zero_stage": stage} if stage < 3 else {"deepspeed": str(parted)}
        for split, tokens in ACCUMULATION.items():
            for rule, settings in RULES.items():
                made[f"{stage}-{split}-{rule}"] = {**of_stage, **settings, "micro_batch_tokens": tokens}
    made["2-offload-adamw"] = {**RULES["adamw"], "deepspeed": str(offload), "micro_batch_tokens": 450}
    for stage in stages:
        of_stage = {"zero_stage": stage} if stage < 3 else {"deepspeed": str(parted)}
        made[f"{stage}-bf16-gradient"] = {**GRADIENT, **of_stage, "bf16": True, "micro_batch_tokens": 450}
    for name in ("0-in-four-gradient", *(f"{stage}-bf16-gradient" for stage in stages)):
        made[name]["spoilt"] = True  # by an infinite loss first, which has to leave no trace
    return made


@cache
def plain(episodes: Path, folder: Path, rule: str) -> torch.Tensor:
    """W5 - W0 (W1 - W0 for the gradient) by nothing but transformers and torch.optim, the whole batch at once."""
    settings = RULES[rule]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    batch = stored_batch(episodes)
    kinds = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}
    optimizer = kinds[settings.get("optimizer", "adamw")](
        model.parameters(), lr=settings["learning_rate"], weight_decay=0.0
    )

    def logp_BT() -> torch.Tensor:
        logits = model(input_ids=batch.ids_BT).logits[:, :-1] / TEMPERATURE
        told = torch.log_softmax(logits, -1).gather(2, batch.ids_BT[:, 1:, None]).squeeze(2)
        return torch.nn.functional.pad(told, (1, 0)) * batch.trained_BT

    batch = batch.with_tensors(old_logp_BT=logp_BT().detach())
    start = torch.cat([p.detach().double().flatten().clone() for p in model.parameters()])
    for _ in range(settings.get("updates", 5)):
        optimizer.zero_grad()
        value, _ = LOSS(Out(logp_BT()), batch)
        value.backward()
        if settings.get("max_grad_norm", 1.0):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return torch.cat([p.detach().double().flatten() for p in model.parameters()]) - start


def launched(processes: int, argv: Sequence[str], *, extensions: Path) -> None:
    """Run the worker as so many ranks, by hand: without a launcher's own noise. No GPU is to be seen."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TORCH_EXTENSIONS_DIR": str(extensions)}
    several = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    several |= {"MASTER_PORT": str(29600 + os.getpid() % 1000)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.algos.zero_worker", *argv],
            env=env | (several | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * processes, "\n".join(said)


@pytest.mark.parametrize("processes", [1, 2])
def test_every_stage_split_and_optimizer_changes_weights_as_plain_pytorch_does(
    processes: int, embedded: Path, episodes: list[Episode], tmp_path: Path
) -> None:
    stored = tmp_path / "episodes.jsonl"
    write_episodes(stored, episodes)
    told = configurations(tmp_path, (0, 1, 2, 3))
    built = tmp_path / "extensions"
    launched(processes, [str(stored), str(tmp_path), str(embedded), json.dumps(told)], extensions=built)
    assert not built.exists()  # nothing was compiled at run time
    errors = {}
    for name in told:
        rule = name.rpartition("-")[2]
        expected = plain(stored, embedded, rule)
        result = torch.load(tmp_path / f"{name}.pt")
        errors[name] = float((result["change"] - expected).norm() / expected.norm())
    print(json.dumps(errors, indent=1))
    wrong = {n: e for n, e in errors.items() if not e < (5e-2 if "bf16" in n else WITHIN[n.rpartition("-")[2]])}
    assert not wrong
