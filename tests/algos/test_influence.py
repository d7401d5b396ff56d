"""How much the answer hangs on what a role said: the embedded model needs its plans."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from algos.command_line import parse
from algos.grpo import Config
from algos.influence import influence
from algos.scoring import Reference
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.types import Episode
from tests.algos.conftest import CPU


@pytest.fixture(scope="module")
def reference(embedded: Path) -> Reference:
    return Reference(str(embedded), CPU, temperature=1.0, micro_batch_tokens=2048)


def of(episodes: list[Episode], role: str, embedded: Path, reference: Reference) -> float | None:
    env = make_world(parse(Config, [], prog="test").env).make_env()
    codec = ChatCodec.from_pretrained(str(embedded))
    return influence(env, episodes, role, codec=codec, reference=reference)


def test_the_embedded_models_answers_hang_on_the_plans(
    episodes: list[Episode], embedded: Path, reference: Reference
) -> None:
    meta = of(episodes, "meta", embedded, reference)
    assert meta is not None
    assert 0.2 < meta <= 1


def test_a_role_that_says_nothing_anyway_has_no_influence(
    episodes: list[Episode], embedded: Path, reference: Reference
) -> None:
    assert of(episodes, "critic", embedded, reference) is None


def test_weights_that_ignore_the_dialogue_show_no_influence(
    episodes: list[Episode], embedded: Path, reference: Reference
) -> None:
    deaf = Reference(str(embedded), CPU, temperature=1.0, micro_batch_tokens=2048)
    with torch.no_grad():
        for weight in deaf.scorer.parameters():
            weight.zero_()
    assert of(episodes, "meta", embedded, deaf) == 0.0
