"""How long each policy's learning-rate schedule is."""

from __future__ import annotations

import pytest

from algos.config import LearnerConfig, ModelConfig, RunConfig, TrainConfig
from algos.team import total_updates

AGENTS = ("meta_0", "reasoner_0")


@pytest.mark.parametrize(
    ("train", "own", "steps"),
    [
        ("all", AGENTS, 10),
        ("reasoner", ("reasoner_0",), 10),
        ("alternate:3", ("meta_0",), 6),  # steps 1-3 and 7-9
        ("alternate:3", ("reasoner_0",), 4),  # steps 4-6 and 10
        ("alternate:3", AGENTS, 10),
        ("alternate:20", ("reasoner_0",), 0),
    ],
)
def test_a_schedule_is_as_long_as_the_steps_in_which_its_agents_learn(
    train: str, own: tuple[str, ...], steps: int
) -> None:
    learner = LearnerConfig(num_minibatches=4, num_iterations=2)
    config = TrainConfig(model=ModelConfig(train=train), run=RunConfig(max_steps=10), learner=learner)
    assert total_updates(config, AGENTS, own) == max(1, 8 * steps)
