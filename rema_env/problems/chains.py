"""Chains of definitions in no order: the plan is to find which of them matter, and in what order.

    c = a * 4, d = b + 1, a = 7, b = c - 2. All values modulo 10. What is b?

Level n takes n steps from the number that is given to the one that is asked for; n further definitions lead nowhere.
"""

from __future__ import annotations

from random import Random

from rema_env.problems.procedural import Procedural, Split, level_in
from rema_env.transcript import Problem

LEVELS = range(1, 9)
MODULUS = 10
_LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without i, l and o, which look like digits


def chains(steps: int = 3, split: Split | None = None) -> Procedural:
    """Chains of `steps` definitions (1 to 8, also the problems' level)."""
    return Procedural("chains", level_in(steps, LEVELS, "steps"), chain_problem, split)


def chain_problem(rng: Random, steps: int) -> Problem:
    """One problem: `steps` definitions that matter, as many that do not, shuffled."""
    names = rng.sample(_LETTERS, 2 * steps + 1)
    values = {names[0]: rng.randrange(MODULUS)}
    lines = [f"{names[0]} = {values[names[0]]}"]
    for k, name in enumerate(names[1:], start=1):
        before = names[k - 1] if k <= steps else rng.choice(names[:k])
        line, values[name] = _define(rng, name, before, values[before])
        lines.append(line)
    rng.shuffle(lines)
    asked = names[steps]
    question = f"{', '.join(lines)}. All values modulo {MODULUS}. What is {asked}?"
    return Problem(f"chains/{question}", question, str(values[asked]), level=steps, source="chains")


def _define(rng: Random, name: str, before: str, value: int) -> tuple[str, int]:
    """A definition of `name` by `before`, and its value."""
    operator, number = rng.choice("+-*"), rng.randrange(1, MODULUS)
    result = {"+": value + number, "-": value - number, "*": value * number}[operator]
    return f"{name} = {before} {operator} {number}", result % MODULUS
