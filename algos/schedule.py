"""Who learns in which step, and under which limit of rounds: pure functions of the step's number, from 1.

    --train all                   every agent in every step
    --train reasoner              one side, the other frozen
    --train alternate:10          ten steps of one, ten of the other; --first says who begins
    --train alternate:40,20       forty of the first, twenty of the next
    --max-rounds 1:0,4:100,30:200 one round at first, four after 100 steps, thirty after 200

Source: alternating training, ReMA, arXiv:2503.09501, sections 3.2 and D.2 (there every 10 steps, meta-thinker first).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Who learns when.

    Attributes:
        phases: (agents, steps) one after the other, then again from the first; steps 0 means for ever.
    """

    phases: tuple[tuple[tuple[str, ...], int], ...]

    @classmethod
    def parse(cls, train: str, agents: Sequence[str], *, first: str | None = None) -> Schedule:
        """From what `--train` and `--first` say. Raises ValueError for a role that the environment does not have."""
        from rema_env.transcript import role_of  # here, so that --help loads no environment

        by_role = {role_of(agent): agent for agent in agents}
        if first is not None and first not in by_role:
            raise ValueError(f"--first {first}: there is no role {first!r}; there are: {', '.join(by_role)}")
        kind, alternates, steps = train.partition(":")
        if not (alternates and kind == "alternate"):
            if kind == "alternate" and kind not in by_role:
                raise ValueError("--train alternate needs its number of steps: alternate:10")
            if first is not None:
                raise ValueError(f"--first {first} says who begins an alternation: give --train alternate:N too")
            return cls(((_named(train, by_role), 0),))
        order = list(by_role)
        if first is not None:
            order = [first, *(role for role in order if role != first)]
        lengths = _lengths(train, steps, len(order))
        return cls(tuple(((by_role[role],), length) for role, length in zip(order, lengths, strict=True)))

    @property
    def agents(self) -> tuple[str, ...]:
        """All who ever learn, in the order of the phases."""
        return tuple(dict.fromkeys(agent for agents, _ in self.phases for agent in agents))

    def learning(self, step: int) -> tuple[str, ...]:
        """Who learns in a step."""
        return self.phases[self._place(step)[0]][0]

    def phase_start(self, step: int) -> int:
        """The first step of the phase that a step belongs to."""
        return step - self._place(step)[1]

    def _place(self, step: int) -> tuple[int, int]:
        """The phase's index and how many of its steps are done."""
        if self.phases[0][1] == 0:
            return 0, step - 1
        done = (step - 1) % sum(length for _, length in self.phases)
        for index, (_, length) in enumerate(self.phases):
            if done < length:
                return index, done
            done -= length
        raise AssertionError("a step lies in one of the phases")


def _named(train: str, by_role: dict[str, str]) -> tuple[str, ...]:
    if train == "all":
        return tuple(by_role.values())
    named = [role.strip() for role in train.split(",")]
    unknown = [role for role in named if role not in by_role]
    if unknown:
        raise ValueError(f"--train {train}: there is no role {unknown[0]!r}; there are: {', '.join(by_role)}")
    return tuple(by_role[role] for role in named)


def _lengths(train: str, steps: str, roles: int) -> list[int]:
    parts = steps.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts) or len(parts) not in (1, roles):
        raise ValueError(
            f"--train {train}: after alternate: comes a number of steps, or {roles} of them, each at least 1"
        )
    lengths = [int(part) for part in parts]
    return lengths * roles if len(lengths) == 1 else lengths


def rounds_at(max_rounds: int | str, step: int) -> int:
    """The limit of rounds in a step, from 1. Raises ValueError where a schedule cannot be read.

    Args:
        max_rounds: a number, or `ROUNDS:STEP,...`: from after STEP steps on.
    """
    if isinstance(max_rounds, int):
        return max_rounds
    items = [item.partition(":") for item in max_rounds.split(",")]
    try:
        pairs = [(int(after), int(rounds)) for rounds, _, after in items]
    except ValueError:
        pairs = []
    if not pairs or pairs[0][0] != 0 or pairs != sorted(pairs) or min(rounds for _, rounds in pairs) < 1:
        raise ValueError(
            f"--max-rounds {max_rounds}: it is a number, or ROUNDS:STEP pairs with rising steps, the first at step 0, "
            "e.g. 1:0,4:100"
        )
    return [rounds for after, rounds in pairs if after < step or after == 0][-1]


def last_rounds(max_rounds: int | str) -> int:
    """The limit of rounds that a schedule ends with."""
    return rounds_at(max_rounds, 2**62)
