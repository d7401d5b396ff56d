"""Parting judged pairs into training and test tuples, as ReMA (arXiv:2503.09501, appendix D.1.2) parts RewardBench.

A tuple is a pair in one order. `loose`: no tuple is in both parts. `strict`: no question is. Every subset is in both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Literal

from rema_env.transcript import Problem

Strictness = Literal["strict", "loose"]
TEST_SIZE = 970  # of RewardBench's 5,970 tuples

Group = tuple[Problem, ...]


def split_tuples(
    tuples: Sequence[Problem], strictness: Strictness, *, test_size: int = TEST_SIZE, seed: int = 0
) -> tuple[list[Problem], list[Problem]]:
    """Part judged tuples into training and test.

    Args:
        tuples: pairs in both orders.
        strictness: `strict` keeps a question's tuples together, `loose` parts them one by one.
        test_size: tuples in the test part, exactly.
        seed: decides who goes where.

    Returns:
        (train, test), each in the order of `tuples`.

    Raises:
        ValueError: where no such parts exist.
    """
    if strictness not in ("strict", "loose"):
        raise ValueError(f"a split is strict or loose, got {strictness!r}")
    if not 0 < test_size < len(tuples):
        raise ValueError(f"test_size must be between 1 and {len(tuples) - 1}, got {test_size}")
    groups = _grouped(tuples, (lambda p: p.question) if strictness == "strict" else (lambda p: p.id))
    Random(seed).shuffle(groups)
    test = {problem.id for group in _chosen(groups, test_size, len(tuples)) for problem in group}
    parts = [p for p in tuples if p.id not in test], [p for p in tuples if p.id in test]
    if len(parts[1]) != test_size or _subsets(parts[0]) != _subsets(tuples) or _subsets(parts[1]) != _subsets(tuples):
        raise ValueError(
            f"no {strictness} split of {len(tuples)} tuples has {test_size} in its test part and every subset in both"
        )
    return parts


def _chosen(groups: Sequence[Group], test_size: int, total: int) -> list[Group]:
    """Groups for the test part: first each subset's share, the rarest subset first; then whatever fills it up."""
    left = {subset: len(found) for subset, found in _by_subset(groups).items()}
    chosen: list[Group] = []
    taken: set[int] = set()
    room = test_size

    def take(k: int) -> int:
        """Takes group k where it fits and each of its subsets keeps a group for training; how many tuples that adds."""
        group = groups[k]
        if k in taken or len(group) > room or any(left[s] < 2 for s in _subsets(group)):
            return 0
        for subset in _subsets(group):
            left[subset] -= 1
        taken.add(k)
        chosen.append(group)
        return len(group)

    for _, members in sorted(_by_subset(groups).items(), key=lambda item: len(item[1])):
        size = sum(len(groups[k]) for k in members)
        share = max(1, size * test_size // total) - sum(len(groups[k]) for k in members if k in taken)
        for k in members:
            if share <= 0:
                break
            added = take(k)
            room, share = room - added, share - added
    for k in range(len(groups)):
        room -= take(k)
    return chosen


def _grouped(tuples: Sequence[Problem], key: Callable[[Problem], Hashable]) -> list[Group]:
    found: dict[Hashable, list[Problem]] = defaultdict(list)
    for problem in tuples:
        found[key(problem)].append(problem)
    return [tuple(group) for group in found.values()]


def _by_subset(groups: Sequence[Group]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for k, group in enumerate(groups):
        for subset in sorted(_subsets(group)):
            found[subset].append(k)
    return found


def _subsets(problems: Sequence[Problem]) -> set[str]:
    return {str(p.extra.get("subset", "")) for p in problems}
