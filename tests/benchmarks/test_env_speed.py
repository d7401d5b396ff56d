from __future__ import annotations

import json

import pytest

from benchmarks import env_speed
from rema_env.views import scripted


def test_it_prints_a_table_and_one_json_object_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert env_speed.main(["--episodes", "20", "--repeats", "2", "--endurance", "50"]) == 0
    *table, last = capsys.readouterr().out.strip().splitlines()
    told = json.loads(last)
    assert {"over_toy", "turns_per_second", "first_tenth", "last_tenth", "memory_growth_bytes"} <= told.keys()
    assert told["turns_per_second"] > 100
    assert any("scripted agents" in line for line in table)


def test_the_agents_take_four_rounds_and_answer_rightly() -> None:
    env = env_speed.make_env()
    env.reset(seed=1)
    for _ in range(env_speed.TURNS):
        env.step(scripted(env.last()[0]))
    assert env.rewards == {"meta_0": 1.0, "reasoner_0": 1.0}
