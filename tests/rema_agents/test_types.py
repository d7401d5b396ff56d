"""What cannot be sampled is refused where it is named, not in the middle of a dialogue."""

from __future__ import annotations

from typing import Any

import pytest

from rema_agents.types import SamplingParams


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"temperature": -1.0}, r"temperature must be 0 \(greedy\) or above, got -1"),
        ({"temperature": float("nan")}, "got nan"),
        ({"temperature": float("inf")}, "got inf"),
        ({"top_p": 0.0}, "top_p is in"),
        ({"top_p": 1.5}, "got 1.5"),
        ({"top_k": -1}, "0 for off: got 1.0, -1"),
        ({"stop_strings": ("a", "")}, "an empty stop string"),
    ],
)
def test_what_cannot_be_sampled_is_refused_and_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingParams(**{"max_tokens": 8, **wrong})
