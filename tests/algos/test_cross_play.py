"""What cross-play needs to pair."""

from __future__ import annotations

import pytest

from algos.cross_play import check_cross_play
from rema_env.transcript import Problem

ONE, TWO = [Problem("p", "q", "a")], [Problem("p", "q", "a"), Problem("r", "s", "b")]


def test_cross_play_needs_two_agents_and_two_problems() -> None:
    check_cross_play(("meta_0", "reasoner_0"), {"heldout": TWO})
    with pytest.raises(ValueError, match="--cross-play pairs agents with one another, and reasoner_0 plays alone"):
        check_cross_play(("reasoner_0",), {"heldout": TWO})
    with pytest.raises(ValueError, match="another problem too, and small has only one problem"):
        check_cross_play(("meta_0", "reasoner_0"), {"heldout": TWO, "small": ONE})
