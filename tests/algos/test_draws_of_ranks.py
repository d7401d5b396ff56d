"""Which problems a step draws does not depend on how many ranks there are; what each of them samples does."""

from __future__ import annotations

import pytest
import torch

from algos import ranks
from algos.config import EnvConfig, ModelConfig
from algos.samplers import make_sampler
from algos.scoring import Precision
from algos.world import make_world


@pytest.mark.parametrize("dataset", [None, "chains-3"])
def test_one_rank_and_four_draw_the_same_problems_and_keep_groups_whole(
    dataset: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, step, problems_per_step = 3, 5, 8
    indices = range(step * problems_per_step, (step + 1) * problems_per_step)

    def drawn(number: int, count: int) -> list[str]:
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("WORLD_SIZE", str(count))
        problems = make_world(EnvConfig(dataset_name=dataset)).problems
        mine = [indices[place] for place in ranks.part(problems_per_step)]
        return [problems.draw(seed, index).id for index in mine]

    whole = drawn(0, 1)
    parts = [drawn(number, 4) for number in range(4)]
    assert [problem for part in parts for problem in part] == whole
    assert [len(part) for part in parts] == [2] * 4


def test_an_engine_that_is_seeded_as_a_whole_has_a_seed_of_its_own_on_every_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rema_agents.vllm.VLLMSampler", lambda folder, **given: given["seed"])

    def seeds(seed: int) -> list[int]:
        found = []
        for number in range(4):
            monkeypatch.setenv("RANK", str(number))
            monkeypatch.setenv("WORLD_SIZE", "4")
            precision = Precision(torch.device("cpu"), torch.float32)
            found.append(make_sampler("vllm", "folder", precision, config=ModelConfig(), seed=seed))
        return found

    assert seeds(1) == seeds(1)
    assert len({*seeds(1), *seeds(2)}) == 8
