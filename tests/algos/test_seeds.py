"""Random numbers that are nobody's own: seeded, saved and restored for whoever draws from the global generators."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from algos import grpo
from algos.batch import Batch
from algos.command_line import parse
from algos.launch import launch
from algos.seeds import generator_states, restore_generators, seed_generators
from tests.algos.steps import steps_of

FLAGS = ["--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "4", "--save-steps", "1"]


def drawn() -> list[float]:
    """One number of each generator."""
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        float(torch.rand(1)),
    ]


def test_the_seed_reaches_every_generator() -> None:
    seed_generators(3, 0)
    first = drawn()
    seed_generators(3, 0)
    assert drawn() == first
    seed_generators(3, 1)
    assert not set(drawn()) & set(first)


def test_states_that_went_through_json_give_the_same_draws_again() -> None:
    drawn()  # leaves half a pair of normal draws in two of the generators
    states = json.loads(json.dumps(generator_states()))
    first = [drawn() for _ in range(3)]
    drawn()
    restore_generators(states)
    assert [drawn() for _ in range(3)] == first


def test_an_algorithm_that_draws_from_the_global_generators_goes_on_from_a_checkpoint_as_if_never_stopped(
    tmp_path: Path,
) -> None:
    def train(folder: str, *argv: str) -> list[float]:
        config = parse(grpo.Config, [*FLAGS, "--output-dir", str(tmp_path / folder), *argv], prog="test")
        own = grpo.algorithm(config)

        def noisy(batch: Batch, carry: Any) -> tuple[torch.Tensor, Any]:
            adv_BT, carry = own.advantages(batch, carry)
            assert isinstance(adv_BT, torch.Tensor)
            return adv_BT + sum(drawn()), carry

        launch(config, replace(own, advantages=noisy), command="grpo")
        return [line["grad_norm"] for line in steps_of(tmp_path / folder)]

    whole = train("whole", "--max-steps", "2")
    train("parts", "--max-steps", "1")
    drawn()
    assert train("parts", "--max-steps", "2", "--resume-from-checkpoint", "latest") == whole
