from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from rema_env.problems.pair_split import split_tuples
from rema_env.problems.pairs import Pair, in_orders, load_pairs
from rema_env.transcript import Problem


def tuples(pairs_of_question: list[int]) -> list[Problem]:
    """Tuples in both orders; question k has that many pairs, subsets alternate."""
    pairs = [
        Pair(f"{k}/{n}", f"q{k}", "good", "bad", extra={"subset": "even" if k % 2 == 0 else "odd"})
        for k, count in enumerate(pairs_of_question)
        for n in range(count)
    ]
    return in_orders(pairs, "both")


@pytest.mark.parametrize("strictness", ["strict", "loose"])
def test_parts_have_the_size_asked_for_share_no_tuple_and_hold_every_subset(
    strictness: Literal["strict", "loose"],
) -> None:
    whole = tuples([1, 2, 3, 1, 1, 2, 1, 5, 1, 1])
    train, test = split_tuples(whole, strictness, test_size=8)
    assert (len(train), len(test)) == (len(whole) - 8, 8)
    assert not {p.id for p in train} & {p.id for p in test}
    assert {p.extra["subset"] for p in train} == {p.extra["subset"] for p in test} == {"even", "odd"}
    shared = {p.question for p in train} & {p.question for p in test}
    assert not shared or strictness == "loose"


def test_a_seed_decides_the_split() -> None:
    whole = tuples([1] * 20)
    assert split_tuples(whole, "strict", test_size=10, seed=1) == split_tuples(whole, "strict", test_size=10, seed=1)
    assert split_tuples(whole, "strict", test_size=10, seed=1) != split_tuples(whole, "strict", test_size=10, seed=2)


def test_a_split_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no strict split of 8 tuples has 3 in its test part"):
        split_tuples(tuples([1, 1, 1, 1]), "strict", test_size=3)
    with pytest.raises(ValueError, match="test_size must be between 1 and 7, got 8"):
        split_tuples(tuples([1, 1, 1, 1]), "strict", test_size=8)
    with pytest.raises(ValueError, match="a split is strict or loose, got 'fair'"):
        split_tuples(tuples([1, 1]), "fair")  # type: ignore[arg-type]


@pytest.mark.parametrize("strictness", ["strict", "loose"])
def test_rewardbench_is_parted_as_the_paper_parts_it(data: Path, strictness: Literal["strict", "loose"]) -> None:
    whole = load_pairs(data / "rewardbench.parquet")
    train, test = split_tuples(whole, strictness)
    assert (len(train), len(test)) == (5000, 970)
    assert {p.extra["subset"] for p in train} == {p.extra["subset"] for p in test} == {p.extra["subset"] for p in whole}
    shared = {p.question for p in train} & {p.question for p in test}
    assert bool(shared) is (strictness == "loose")
