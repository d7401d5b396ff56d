"""Which problems a step draws does not depend on how many ranks there are."""

from __future__ import annotations

import pytest

from algos import ranks
from algos.config import EnvConfig
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
