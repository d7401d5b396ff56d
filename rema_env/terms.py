"""The reward terms: pure functions of a graded transcript and a role.

Each has a fixed range, so that a weight means the same everywhere; penalties are shares in [0, 1], to be given a
negative weight. None looks at a `Message.reasoning` block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real

from rema_env.process import META
from rema_env.rewards import ANSWER, Graded, Reward, for_role
from rema_env.transcript import Message, role_of

NGRAM = 4  # words; shorter repetitions are ordinary speech


def format_kept(graded: Graded, role: str) -> float:
    """1 where the answerer's last words have the answer's form and, for other roles, none of their messages has."""
    said = graded.transcript.by(role)
    if role == graded.answerer:
        return float(bool(said) and graded.tag.holds(said[-1]))
    return float(not any(graded.tag.appears(message) for message in said))


def leak(graded: Graded, role: str) -> float:
    """1 where a role that is not to answer writes the answer's form, as a plan that gives the answer away does."""
    return 1.0 - format_kept(graded, role) if role != graded.answerer else 0.0


def single_turn_scheme(graded: Graded, role: str) -> float:
    """The paper's pay for one plan and one solution, in [-1, 1].

    The reasoner gets 1 for a right answer, -0.5 for a wrong one in the answer's form, -1 without it. The meta-thinker
    gets the score of the solution, and -1 in its place where its plan holds the answer's form.

    Source: ReMA, arXiv:2503.09501, appendix C.2.
    """
    kept = format_kept(graded, role)
    if role != graded.answerer:
        return graded.score if kept else -1.0
    if graded.score >= 1.0:
        return 1.0
    return -0.5 if kept else -1.0


def empty(graded: Graded, role: str) -> float:
    """The share of the role's messages that say nothing but whitespace, in [0, 1]."""
    said = graded.transcript.by(role)
    return sum(not message.strip() for message in said) / max(len(said), 1)


def repetition(graded: Graded, role: str) -> float:
    """The share of the role's four-word sequences that it has said before, over all its messages, in [0, 1]."""
    found = [ngram for message in graded.transcript.by(role) for ngram in _ngrams(message)]
    return 1.0 - len(set(found)) / len(found) if found else 0.0


def copying(graded: Graded, role: str) -> float:
    """The share of the role's four-word sequences that a partner had said before it, in [0, 1]."""
    heard: set[tuple[str, ...]] = set()
    copied = total = 0
    for turn in graded.transcript.turns:
        ngrams = list(_ngrams(turn.message))
        if role_of(turn.agent) == role:
            copied += sum(ngram in heard for ngram in ngrams)
            total += len(ngrams)
        else:
            heard.update(ngrams)
    return copied / total if total else 0.0


def _ngrams(message: Message) -> Iterator[tuple[str, ...]]:
    words = message.split()
    return zip(*(words[k:] for k in range(NGRAM)), strict=False)


TERMS: Mapping[str, Reward] = {
    reward.name: reward
    for reward in (
        ANSWER,
        Reward("format", format_kept),
        Reward("single_turn_scheme", single_turn_scheme),
        Reward("empty", empty),
        Reward("repetition", repetition),
        Reward("copying", copying),
        Reward("leak", leak, roles=(META,)),
    )
}
_PAY_FOR_THE_ANSWER = ("answer", "single_turn_scheme")


def weighted(weights: Mapping[str, float], roles: Sequence[str]) -> tuple[Reward, ...]:
    """Reward terms from a configuration.

    Args:
        weights: term -> weight, for every role, or role/term -> weight for one: `{"answer": 1, "meta/leak": -0.5}`.
        roles: every role there is.

    Raises:
        ValueError: for an unknown term or role, a weight that is no finite number, or weights under which a wrong
            answer in good form could be paid as much as a right one in bad form.
    """
    rewards = tuple(_one(name, weight, roles) for name, weight in weights.items())
    for role in roles:
        own = for_role(rewards, role)
        answer = sum(reward.weight for reward in own if reward.name in _PAY_FOR_THE_ANSWER)
        others = sum(abs(reward.weight) for reward in own if reward.name not in _PAY_FOR_THE_ANSWER)
        if others and others >= answer:
            raise ValueError(
                f"{role}: the weights of the other terms come to {others:g}, that of the answer to {answer:g}; form"
                " would be worth as much as being right"
            )
    return rewards


def _one(name: str, weight: float, roles: Sequence[str]) -> Reward:
    role, _, term = name.rpartition("/")
    if term not in TERMS:
        raise ValueError(f"there is no reward term {term!r}; there are {', '.join(TERMS)}")
    if role and role not in roles:
        raise ValueError(f"reward term {name!r} pays a role that is not there; there are {', '.join(roles)}")
    if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
        raise ValueError(f"the weight of reward term {name!r} must be a finite number, got {weight!r}")
    reward = replace(TERMS[term], weight=float(weight))
    return replace(reward, roles=(role,)) if role else reward


def as_rewards(given: Sequence[Reward] | Mapping[str, float], roles: Sequence[str]) -> tuple[Reward, ...]:
    """Reward terms given as they are, or by name and weight.

    Raises:
        ValueError: as `weighted`, or where one role would be paid twice by terms of one name.
    """
    if isinstance(given, Mapping):
        rewards = weighted(given, roles)
    elif isinstance(given, Sequence) and all(isinstance(reward, Reward) for reward in given):
        rewards = tuple(given)
    else:
        raise ValueError(f"rewards are a mapping from term to weight, or Reward terms, got {given!r:.60}")
    for role in roles:
        names = [reward.name for reward in for_role(rewards, role)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two reward terms of {role} are called {twice[0]!r}")
    return rewards
