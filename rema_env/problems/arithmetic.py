"""Procedural problems in arithmetic modulo 10, and the oracle that speaks each role's part of solving them.

    Question   Compute 3+(4*2) modulo 10.
    meta       Compute 4*2
    reasoner   8
    meta       Compute 3+8 [FINISH]
    reasoner   \\boxed{1}

Rule: bracket first, then products, then from left to right. Reducing every result modulo 10 on the way gives the exact
value modulo 10, because + - * respect it. Problems that plain left-to-right order also solves are thinned out, so that
a good plan is worth something. Nothing is downloaded, nothing is stored: a problem is a pure function of two numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from rema_env.problems.procedural import Split, first_different, is_heldout
from rema_env.roles import BOX, FINISH_FLAG
from rema_env.transcript import Problem

MODULUS = 10
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: (a + b) % MODULUS,
    "-": lambda a, b: (a - b) % MODULUS,
    "*": lambda a, b: (a * b) % MODULUS,
}
LEVELS = (1, 2, 3, 4)  # numbers of operations
PLAIN_KEPT = 0.4  # the share kept of problems that plain left-to-right order solves as well
BRACKETED = 0.5  # the share with one pair of brackets

Chat = Sequence[Mapping[str, str]]

_EXPRESSION = re.compile(r"[\d(][-+*()\d]*[\d)]|\d")


@dataclass(frozen=True)
class Expression:
    """Numbers with operators between them and at most one pair of brackets.

    Attributes:
        numbers: n + 1 numbers.
        operators: n characters of `+-*`; operator i stands between numbers i and i + 1.
        bracket: the first and the last number inside the brackets, or None.
    """

    numbers: tuple[int, ...]
    operators: str = ""
    bracket: tuple[int, int] | None = None

    def __str__(self) -> str:
        words = [str(number) for number in self.numbers]
        if self.bracket is not None:
            first, last = self.bracket
            words[first], words[last] = f"({words[first]}", f"{words[last]})"
        return "".join(map("".join, itertools.zip_longest(words, self.operators, fillvalue="")))

    @classmethod
    def parse(cls, text: str) -> Expression:
        """The longest expression written in a text. Raises ValueError where there is none that this class can hold."""
        written = max(_EXPRESSION.findall(text), key=len, default="")
        tokens = re.findall(r"\(?\d+\)?", written)
        opened = [i for i, token in enumerate(tokens) if token.startswith("(")]
        closed = [i for i, token in enumerate(tokens) if token.endswith(")")]
        bracket = (opened[0], closed[0]) if opened and closed else None
        numbers = tuple(int(token.strip("()")) for token in tokens)
        expression = cls(numbers, re.sub(r"[\d()]", "", written), bracket)
        if not written or str(expression) != written:
            raise ValueError(f"no arithmetic expression with at most one pair of brackets in {text!r}")
        return expression

    def first_operator(self) -> int:
        """The operator to carry out first under the rule: bracket, then product, then left to right."""
        first, last = self.bracket or (0, len(self.operators))
        product = self.operators.find("*", first, last)
        return first if product < 0 else product

    def step(self, operator: int) -> str:
        """The operation at one operator, written out: `4*2`."""
        return f"{self.numbers[operator]}{self.operators[operator]}{self.numbers[operator + 1]}"

    def after(self, operator: int, result: int) -> Expression:
        """What remains once an operator and its two numbers are replaced by a result."""
        numbers = (*self.numbers[:operator], result, *self.numbers[operator + 2 :])
        operators = self.operators[:operator] + self.operators[operator + 1 :]
        first, last = (i - (i > operator) for i in self.bracket or (0, 0))
        return Expression(numbers, operators, (first, last) if first < last else None)

    def value(self) -> int:
        """The result modulo 10, in 0..9."""
        if self.bracket is None:
            return _evaluate(self.numbers, self.operators)
        first, last = self.bracket
        inner = _evaluate(self.numbers[first : last + 1], self.operators[first:last])
        numbers = (*self.numbers[:first], inner, *self.numbers[last + 1 :])
        return _evaluate(numbers, self.operators[:first] + self.operators[last:])

    def plain_value(self) -> int:
        """What plain left-to-right order makes of it, modulo 10, in 0..9."""
        result = self.numbers[0]
        for operator, number in zip(self.operators, self.numbers[1:], strict=True):
            result = OPERATIONS[operator](result, number)
        return result % MODULUS


def _evaluate(numbers: Sequence[int], operators: str) -> int:
    """The value modulo 10 of numbers with operators between them and no brackets: products first."""
    total, product = 0, numbers[0]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator == "*":
            product *= number
        else:
            total, product = total + product, number if operator == "+" else -number
    return (total + product) % MODULUS


def _carry_out(expression: Expression, operator: int) -> int:
    """The result of one operation, modulo 10."""
    operation = OPERATIONS[expression.operators[operator]]
    return operation(expression.numbers[operator], expression.numbers[operator + 1])


def _draw_expression(rng: Random, operations: int) -> Expression:
    """Uniform digits and operators; half with a pair of brackets around a uniform part that is not the whole."""
    numbers = tuple(rng.randrange(MODULUS) for _ in range(operations + 1))
    operators = "".join(rng.choice("+-*") for _ in range(operations))
    parts = _parts(operations)
    bracket = rng.choice(parts) if parts and rng.random() < BRACKETED else None
    return Expression(numbers, operators, bracket)


@cache
def _parts(operations: int) -> tuple[tuple[int, int], ...]:
    """Where a pair of brackets can stand: around two numbers or more, but not around all."""
    ends = range(operations + 1)
    return tuple((first, last) for first in ends for last in ends[first + 1 :] if last - first < operations)


@dataclass(frozen=True)
class Arithmetic:
    """An endless source of problems of one difficulty; see `arithmetic`."""

    operations: int = 2
    split: Split | None = None

    def __post_init__(self) -> None:
        if self.operations not in LEVELS:
            raise ValueError(f"operations must be one of {LEVELS}, got {self.operations!r}")
        if self.split not in ("train", "heldout", None):
            raise ValueError(f"split must be 'train', 'heldout' or None for both, got {self.split!r}")

    @property
    def name(self) -> str:
        """For example `arithmetic-2-heldout`."""
        return "-".join(["arithmetic", str(self.operations), *([self.split] if self.split else [])])

    @property
    def size(self) -> None:
        """None: the source has no end and no epochs."""
        return None

    def parted(self, split: Split) -> Arithmetic:
        """The same family with only the problems of one split."""
        return replace(self, split=split)

    def draw(self, seed: int, index: int) -> Problem:
        """The problem at one index: a pure function of (seed, index), the same on every machine."""
        rng = Random(f"{seed} {index}")
        while True:
            expression = _draw_expression(rng, self.operations)
            if self.split and is_heldout(str(expression)) != (self.split == "heldout"):
                continue
            plain = self.operations > 1 and expression.plain_value() == expression.value()
            if not plain or rng.random() < PLAIN_KEPT:
                return _problem(expression)

    def listed(self, count: int, seed: int = 0) -> tuple[Problem, ...]:
        """As `first_different`; one operation has 300 problems, 29 of them held out, two have 27,000 and 3,411."""
        return first_different(self, count, seed)


def _problem(expression: Expression) -> Problem:
    written = str(expression)
    return Problem(
        id=f"arithmetic/{written}",
        question=f"Compute {written} modulo {MODULUS}.",
        answer=str(expression.value()),
        level=len(expression.operators),
        source="arithmetic",
    )


def arithmetic(operations: int = 2, split: Split | None = None) -> Arithmetic:
    """Arithmetic modulo 10 with `operations` operations (1 to 4, also the problems' level) on digits.

    Args:
        operations: the difficulty; one operation needs no plan, three are markedly harder than two.
        split: `train` and `heldout` part all problems by a hash of the problem, 7 to 1; None draws from both.
    """
    return Arithmetic(operations, split)


@dataclass(frozen=True)
class Oracle:
    """Speaks the part of either role in the multi-turn dialogue: a plain function of the chat that the role sees.

    The meta-thinker names one operation after the other and goes on from whatever result it was told; with the last
    one it sets the flag. The reasoner carries out what it was told. The defaults make no mistake; the others do, in a
    way that `seed` decides, so that the same chat always gets the same words.

    Attributes:
        plain: the meta-thinker ignores brackets and precedence and goes from left to right.
        slip: the probability that the reasoner states a wrong result.
        early: the probability that the meta-thinker sets the flag one operation too soon.
        seed: decides the slips and the early end.
    """

    plain: bool = False
    slip: float = 0.0
    early: float = 0.0
    seed: int = 0

    def __call__(self, messages: Chat) -> str:
        """The next message of the role whose chat this is; its system prompt, if any, is not looked at."""
        chat = [message for message in messages if message["role"] != "system"]
        is_reasoner = chat[0]["content"].startswith("Question:")
        return self._reason(chat) if is_reasoner else self._plan(chat)

    def _plan(self, chat: Chat) -> str:
        expression = Expression.parse(chat[0]["content"])
        for plan, reply in zip(chat[1::2], chat[2::2], strict=True):
            if expression.operators:
                expression = self._go_on(expression, plan["content"], reply["content"])
        if not expression.operators:
            return f"Compute {expression} {FINISH_FLAG.text}"
        left = len(expression.operators)
        last = left == 1 or (left == 2 and Random(f"{self.seed} early").random() < self.early)
        return f"Compute {expression.step(self._choose(expression))}{f' {FINISH_FLAG.text}' if last else ''}"

    def _choose(self, expression: Expression) -> int:
        return 0 if self.plain else expression.first_operator()

    def _go_on(self, expression: Expression, plan: str, reply: str) -> Expression:
        """What is left after one round: the operation that the plan named, replaced by the number in the reply."""
        chosen = self._choose(expression)
        steps = [chosen, *range(len(expression.operators))]
        operator = next((i for i in steps if expression.step(i) in plan), chosen)
        numbers = re.findall(r"\d+", reply)
        result = int(numbers[-1]) % MODULUS if numbers else _carry_out(expression, operator)
        return expression.after(operator, result)

    def _reason(self, chat: Chat) -> str:
        instruction = chat[-1]["content"].rpartition("Instruction:")[2].strip()
        try:
            result = str(self._slipped(Expression.parse(instruction).value(), len(chat)))
        except ValueError:  # a plan that names nothing to compute
            result = "?"
        return BOX.example(result) if FINISH_FLAG.ends(instruction) else result

    def _slipped(self, result: int, place: int) -> int:
        rng = Random(f"{self.seed} slip {place}")
        return (result + rng.randrange(1, MODULUS)) % MODULUS if rng.random() < self.slip else result


oracle = Oracle()
