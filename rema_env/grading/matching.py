"""Items against items, by any comparison of two: in order, in any order, without repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rema_env.grading.answer import Answer
from rema_env.grading.verdict import Verdict, all_of

Same = Callable[[Answer, Answer], Verdict]
_MOST_ITEMS = 64  # comparing each with each is quadratic


def match_in_order(gold: Sequence[Answer], said: Sequence[Answer], same: Same) -> Verdict:
    """As many items, each the same as its counterpart."""
    if len(gold) != len(said):
        return False
    return all_of(same(a, b) for a, b in zip(gold, said, strict=True))


def match_in_any_order(gold: Sequence[Answer], said: Sequence[Answer], same: Same) -> Verdict:
    """Each item has a partner of its own on the other side."""
    if len(gold) != len(said) or len(gold) > _MOST_ITEMS:
        return False
    left, sure = list(said), True
    for item in gold:
        verdicts = [same(item, other) for other in left]
        at = next((k for k, verdict in enumerate(verdicts) if verdict), None)
        if at is None and None not in verdicts:
            return False
        sure = sure and at is not None
        left.pop(verdicts.index(None) if at is None else at)
    return True if sure else None


def without_repetition(items: Sequence[Answer], same: Same) -> tuple[Answer, ...]:
    """The items, each once; those beyond the first 64 as they are."""
    kept: list[Answer] = []
    for item in items[:_MOST_ITEMS]:
        if not any(same(other, item) for other in kept):
            kept.append(item)
    return tuple(kept) + tuple(items[_MOST_ITEMS:])
