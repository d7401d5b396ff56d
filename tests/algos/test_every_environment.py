"""Every environment in every process is evaluated by the one command."""

from __future__ import annotations

import pytest

from algos.evaluate import main
from rema_env.process import PROCESSES
from rema_env.registry import BUILT_IN


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("name", BUILT_IN)
def test_two_problems_are_evaluated(name: str, process: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embedded", "--env", name, "--process", process, "--max-rounds", "2", "--eval-num-problems", "2"])
    assert "heldout: 2 problems, accuracy " in capsys.readouterr().out
