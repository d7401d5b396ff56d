"""Real episodes of the embedded model, played once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from algos.grpo import Config
from algos.scoring import Precision
from algos.team import make_team
from algos.world import make_world
from rema_agents.models import model_folder
from rema_agents.play import play
from rema_agents.types import Episode, SamplingParams

CPU = Precision(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The embedded model's folder."""
    return Path(model_folder("embedded"))


@pytest.fixture(scope="session")
def episodes(embedded: Path) -> list[Episode]:
    """Four problems, four episodes each, sampled at temperature 0.7."""
    from algos.command_line import parse

    config = parse(Config, [], prog="test")
    world = make_world(config.env)
    team = make_team(config.model, world.agents, CPU)
    problems = [world.problems.draw(5, p) for p in range(4) for _ in range(4)]
    seats = team.seats(SamplingParams(10, 0.7, seed=1), max_prompt_length=128)
    return play(world.make_env, seats, problems, groups=[p for p in range(4) for _ in range(4)])
