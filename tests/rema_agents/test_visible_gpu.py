"""A process that is started sees one GPU of those that this one sees."""

from __future__ import annotations

import os

import pytest

from rema_agents.visible_gpu import seeing


@pytest.mark.parametrize(("seen", "gpu", "expected"), [("4,5,6", 1, "5"), (None, 2, "2"), ("4,5", None, "4,5")])
def test_the_engine_of_a_rank_sees_its_own_gpu_alone_and_the_rank_all_of_them(
    monkeypatch: pytest.MonkeyPatch, seen: str | None, gpu: int | None, expected: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    with seeing(gpu):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == expected
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == seen


@pytest.mark.parametrize(("seen", "gpu"), [("4,5", 2), ("4,5", -1), ("", 0)])
def test_a_gpu_that_is_not_visible_is_named_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, seen: str, gpu: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    with pytest.raises(ValueError, match=f"GPU {gpu}, .* not visible: CUDA_VISIBLE_DEVICES={seen} shows"), seeing(gpu):
        pass
    assert os.environ["CUDA_VISIBLE_DEVICES"] == seen
