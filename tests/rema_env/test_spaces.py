from __future__ import annotations

import os
import pickle
import subprocess
import sys
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rema_env.spaces import Chat, FreeText, valid_unicode


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_string_is_free_text_and_becomes_valid_unicode(text: str) -> None:
    assert FreeText().contains(text)
    cleaned = valid_unicode(text)
    cleaned.encode()
    assert valid_unicode(cleaned) == cleaned


@given(st.text())
def test_valid_text_is_left_alone(text: str) -> None:
    assert valid_unicode(text) is text


@pytest.mark.parametrize("text", ["", " ", r"\boxed{3}", "\n\t", "é", "日本語", "\U0001f600", "\x00"])
def test_blanks_controls_and_every_script_are_contained(text: str) -> None:
    assert text in FreeText()


@pytest.mark.parametrize("other", [None, 5, b"", ["a"], "abcd"])
def test_what_is_no_text_or_too_long_is_not(other: Any) -> None:
    assert other not in FreeText(max_length=3)


def test_a_length_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_length must be at least 1 character, got 0"):
        FreeText(0)


@pytest.mark.parametrize("space", [FreeText(), Chat()])
def test_samples_are_seeded_contained_and_give_nothing_away(space: FreeText | Chat) -> None:
    def samples(seed: int) -> list[Any]:
        space.seed(seed)
        return [space.sample() for _ in range(20)]

    assert samples(1) == samples(1) != samples(2)
    assert all(sample in space for sample in samples(3))
    assert "[FINISH]" not in str(samples(3))
    assert "boxed" not in str(samples(3))


@pytest.mark.parametrize("space", [FreeText(), Chat()])
def test_samples_survive_json_and_spaces_survive_pickling(space: FreeText | Chat) -> None:
    samples = [space.sample() for _ in range(3)]
    assert space.from_jsonable(space.to_jsonable(samples)) == samples
    twin = pickle.loads(pickle.dumps(space))
    assert twin == space
    assert hash(twin) == hash(space)


def test_spaces_are_equal_by_their_bounds() -> None:
    assert FreeText(5) == FreeText(5) != FreeText(6)
    assert Chat() == Chat() != FreeText()


@pytest.mark.parametrize(
    "other",
    [
        [{"role": "user", "content": "a list"}],
        ({"role": "critic", "content": "x"},),
        ({"role": "user"},),
        ({"role": "user", "content": 5},),
        ({"role": "user", "content": "x", "name": "y"},),
        ("text",),
    ],
)
def test_a_malformed_chat_is_not_contained(other: Any) -> None:
    assert other not in Chat()
    assert () in Chat()


def test_samples_are_the_same_in_every_process() -> None:
    code = (
        "from rema_env.spaces import FreeText, Chat\n"
        "print([space.sample() for space in (FreeText(seed=7), Chat(seed=7)) for _ in range(3)])"
    )
    outputs = {
        subprocess.check_output([sys.executable, "-c", code], text=True, env={**os.environ, "PYTHONHASHSEED": number})
        for number in ("1", "2")
    }
    assert outputs == {f"{[space.sample() for space in (FreeText(seed=7), Chat(seed=7)) for _ in range(3)]}\n"}


def test_sampling_text_is_cheap() -> None:
    space = FreeText(seed=0)
    assert min(timeit.repeat(space.sample, number=100, repeat=5)) / 100 < 1e-4
