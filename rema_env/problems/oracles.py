r"""The oracle of every process on the problems of `arithmetic`: each says all of its part in one message.

    process        role        says to  Compute 3+(4*2) modulo 10.
    multi_turn                 see `rema_env.problems.arithmetic`
    single_turn    meta        Compute 4*2 then 3+a
                   reasoner    4*2=8 3+8=1 \boxed{1}
    mrp            reasoner    Compute 4*2 then 3+a
                               4*2=8 3+8=1 \boxed{1}
    vrp            reasoner    4*2=8 3+8=1 \boxed{1}

A plan holds no result: `a` stands for the first one, `b` for the second, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from rema_env.problems.arithmetic import MODULUS, OPERATIONS, Chat, Expression, Oracle
from rema_env.roles import BOX

Speak = Callable[[Chat], str]
Step = tuple[str, str, str]  # left, operator, right

RESULTS = "abcdefghijklmnopqrstuvwxyz"
THEN = " then "
_STEP = re.compile(r"(\d+|\b[a-z])([-+*])(\d+|[a-z]\b)")


def oracle_of(process: str, *, plain: bool = False, slip: float = 0.0, early: float = 0.0, seed: int = 0) -> Speak:
    """What speaks every role's part in one of the four processes; the mistakes are those of `Oracle`.

    Raises:
        ValueError: for a process without an oracle.
    """
    if process == "multi_turn":
        return Oracle(plain, slip, early, seed)
    return OneMessageOracle(process, plain, slip, early, seed)


@dataclass(frozen=True)
class OneMessageOracle:
    """Speaks the part of either role where each of them speaks once: a plain function of the chat that the role sees.

    Attributes:
        process: `single_turn`, `mrp` or `vrp`.
        plain: it ignores brackets and precedence and goes from left to right.
        slip: the probability that a result is wrong; later steps go on from it.
        early: the probability that the last operation is left out.
        seed: decides the slips and the early end.
    """

    process: str
    plain: bool = False
    slip: float = 0.0
    early: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.process not in ("single_turn", "mrp", "vrp"):
            raise ValueError(f"no oracle speaks in process {self.process!r}, only in multi_turn, single_turn, mrp, vrp")

    def __call__(self, messages: Chat) -> str:
        """The message of the role whose chat this is; its system prompt, if any, is not looked at."""
        text = next(message["content"] for message in messages if message["role"] != "system")
        if self.process == "single_turn" and text.startswith("Question:"):
            return self._work(_STEP.findall(text.partition("Instruction:")[2]))
        steps = self._steps(Expression.parse(text))
        if self.process == "single_turn":
            return _plan(steps)
        return self._work(steps) if self.process == "vrp" else f"{_plan(steps)}\n{self._work(steps)}"

    def _steps(self, expression: Expression) -> list[Step]:
        """The operations in order, a letter in the place of each result."""
        names, steps = [str(number) for number in expression.numbers], list[Step]()
        while expression.operators:
            i = 0 if self.plain else expression.first_operator()
            steps.append((names[i], expression.operators[i], names[i + 1]))
            names[i : i + 2] = [RESULTS[len(steps) - 1]]
            expression = expression.after(i, 0)
        ends_early = Random(f"{self.seed} early").random() < self.early
        return steps[:-1] if ends_early and len(steps) > 1 else steps

    def _work(self, steps: Sequence[Step]) -> str:
        """Every step carried out, and the last result in its box; `?` where a step asks for a result that is not."""
        results: dict[str, str] = {}
        written = []
        for name, (left, operator, right) in zip(RESULTS, steps, strict=False):
            left, right = (results.get(word, word) for word in (left, right))
            results[name] = self._carry_out(left, operator, right, len(results))
            written.append(f"{left}{operator}{right}={results[name]}")
        return " ".join([*written, BOX.example(results[RESULTS[len(results) - 1]] if results else "?")])

    def _carry_out(self, left: str, operator: str, right: str, place: int) -> str:
        if not (left.isdecimal() and right.isdecimal()):
            return "?"
        rng = Random(f"{self.seed} slip {place}")
        slip = rng.randrange(1, MODULUS) if rng.random() < self.slip else 0
        return str((OPERATIONS[operator](int(left), int(right)) + slip) % MODULUS)


def _plan(steps: Sequence[Step]) -> str:
    return f"Compute {THEN.join(map(''.join, steps))}"
