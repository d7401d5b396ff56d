"""Values of expressions in some arithmetic: floats here, arbitrary precision in the workers (`proof`).

Values are complex. An evaluation that would lose digits says so (`Unsure`) instead of returning a wrong number.
"""

from __future__ import annotations

import cmath
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rema_env.grading.exact import Inexact, exact
from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.points import Point

Value = Any  # complex, or mpmath's mpc

_TRIGONOMETRIC = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])


class Unsure(ArithmeticError):
    """No value that can be trusted: undefined, infinite, too big, or with too many digits lost."""


@dataclass(frozen=True)
class Arithmetic:
    """A number system.

    Attributes:
        number: from an exact fraction.
        functions: exp, log, sin, cos, tan, arcsin, arccos, arctan, gamma of a value.
        pi: the constant.
        digits: relative precision, in decimal digits.
        cancels: the fraction of the biggest term below which a sum is not trusted; 0 trusts all.
        biggest: natural logarithm of the biggest absolute value allowed.
        steps: operations allowed in one evaluation.
    """

    number: Callable[[Fraction], Value]
    functions: Mapping[str, Callable[[Value], Value]]
    pi: Value
    digits: int
    cancels: float
    biggest: float
    steps: int


FLOAT = Arithmetic(
    number=lambda fraction: complex(float(fraction)),
    functions={
        "exp": cmath.exp, "log": cmath.log, "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan,
        "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan,
        "gamma": lambda x: complex(math.gamma(x.real)),
    },
    pi=complex(math.pi), digits=15, cancels=1e-6, biggest=600.0, steps=2_000,
)  # fmt: skip


def value(expr: Expr, point: Point, arithmetic: Arithmetic) -> Value:
    """The value at a point. Raises Unsure."""
    try:
        return _checked(_Evaluation(point, arithmetic).value(expr, False), arithmetic)
    except (ArithmeticError, ValueError, TypeError) as error:  # undefined in floats or in mpmath
        raise Unsure(str(error)) from None


def _checked(number: Value, arithmetic: Arithmetic) -> Value:
    size = abs(number)
    if not size < math.inf or (size > 1 and _log_size(number, arithmetic) > arithmetic.biggest):
        raise Unsure("out of range")
    return number


def _log_size(number: Value, arithmetic: Arithmetic) -> float:
    return float(abs(arithmetic.functions["log"](abs(number)))) if number else 0.0


class _Evaluation:
    """One walk over a tree."""

    def __init__(self, point: Point, arithmetic: Arithmetic) -> None:
        self.arithmetic, self.functions, self.point = arithmetic, arithmetic.functions, point
        self.bound = dict(point.names)
        self.steps = arithmetic.steps

    def value(self, expr: Expr, angle: bool) -> Value:
        """`angle`: inside a trigonometric function, where a degree is pi/180."""
        self.steps -= 1
        if self.steps < 0:
            raise Unsure("too many operations")
        if isinstance(expr, Number):
            return self.arithmetic.number(expr.value)
        if isinstance(expr, Name):
            return self.name(expr.text)
        if expr.op in ("sum", "prod"):
            return self.series(expr)
        if expr.op == "apply":
            return self.applied(expr)
        inside = angle or expr.op in _TRIGONOMETRIC
        args = [self.value(arg, inside) for arg in expr.args]
        if expr.op == "degree":
            return args[0] * self.arithmetic.pi / 180 if angle else args[0]
        if expr.op == "pow":
            return _checked(self.power(args[0], args[1], expr.args[1]), self.arithmetic)
        return _checked(self.operation(expr.op, args), self.arithmetic)

    def name(self, name: str) -> Value:
        if name in self.bound:  # also the index i of a sum
            return self.arithmetic.number(self.bound[name])
        if name == "i":
            return self.arithmetic.number(Fraction(0)) + 1j
        if name == "e":
            return self.functions["exp"](self.arithmetic.number(Fraction(1)))
        if name == "pi":
            return self.arithmetic.pi
        raise Unsure(f"{name} has no value")

    def applied(self, expr: Call) -> Value:
        """An unknown function: some number that depends on its name and argument alone."""
        function, argument = expr.args
        assert isinstance(function, Name)
        at = complex(self.value(argument, False))
        draw = random.Random(f"{function.text}({at.real:.9g},{at.imag:.9g})")
        return self.arithmetic.number(Fraction(draw.randint(1100, 4900), 1009))

    def series(self, expr: Call) -> Value:
        variable, low, high, term = expr.args
        if not isinstance(variable, Name):
            raise Unsure("a sum over something other than a name")
        first, last = self.whole(self.value(low, False)), self.whole(self.value(high, False))
        if last - first > 500:
            raise Unsure("a sum of too many terms")
        kept = self.bound.get(variable.text)
        terms = []
        for k in range(first, last + 1):
            self.bound[variable.text] = Fraction(k)
            terms.append(self.value(term, False))
        self.bound.pop(variable.text, None)
        if kept is not None:
            self.bound[variable.text] = kept
        return self.operation("add" if expr.op == "sum" else "mul", terms)

    def operation(self, op: str, args: list[Value]) -> Value:
        if op == "add":
            return self.add(args)
        if op == "mul":
            product = self.arithmetic.number(Fraction(1))
            for arg in args:
                product = _checked(product * arg, self.arithmetic)
            return product
        if op == "div":
            return args[0] / args[1]
        if op == "neg":
            return self.arithmetic.number(Fraction(0)) - args[0]  # a float's -0j would choose the wrong branch
        if op == "percent":
            return args[0] / 100
        if op == "root":
            return self.root(args[0], args[1])
        if op in ("log", "ln", "lg"):
            return self.log(op, args)
        if op in ("floor", "ceil", "factorial", "double_factorial", "binom", "gcd", "lcm", "mod", "max", "min"):
            return self.on_reals(op, args)
        return self.function(op, args[0])

    def add(self, terms: list[Value]) -> Value:
        total = sum(terms, self.arithmetic.number(Fraction(0)))
        sizes = [abs(term) for term in terms if term]
        if len(sizes) > 1:
            most = max(sizes)
            if abs(total) < most * self.arithmetic.cancels or min(sizes) < most * 10 ** (5 - self.arithmetic.digits):
                raise Unsure("digits lost in a sum")
        return total

    def power(self, base: Value, exponent: Value, written: Expr) -> Value:
        if not base:
            if exponent.real <= 0:
                raise Unsure("a power of zero")
            return base
        if abs(exponent) * (1 + _log_size(base, self.arithmetic)) > 4 * self.arithmetic.biggest:
            raise Unsure("a power out of range")
        if exponent == 1:
            return base
        if 0 < abs(exponent) * _log_size(base, self.arithmetic) < 10 ** (-self.arithmetic.digits / 4):
            raise Unsure("an exponent so small that digits are lost")
        if not base.imag and base.real < 0:
            try:
                fraction = exact(written)
            except Inexact:
                return base**exponent
            if fraction.denominator == 1:
                return base ** int(fraction)
            if fraction.denominator % 2:
                return (-1) ** (fraction.numerator % 2) * (-base) ** exponent
        return base**exponent

    def root(self, number: Value, index: Value) -> Value:
        if not number:
            return number
        n = self.whole(index)
        if not 1 <= n <= 1000:
            raise Unsure("a root of that index")
        exponent = self.arithmetic.number(Fraction(1, n))
        if not number.imag and number.real < 0 and n % 2:
            return -((-number) ** exponent)
        return number**exponent

    def log(self, op: str, args: list[Value]) -> Value:
        log = self.functions["log"]
        if op == "ln" or (op == "log" and len(args) == 1 and self.point.log_base is None):
            return log(args[0])
        base = args[1] if len(args) == 2 else self.arithmetic.number(Fraction(10))
        return log(args[0]) / log(base)

    def function(self, op: str, x: Value) -> Value:
        if op == "abs":
            return self.arithmetic.number(Fraction(0)) + abs(x)
        if op in ("sin", "cos", "tan", "cot", "sec", "csc") and abs(x) > 1e6:
            raise Unsure("an angle too big")
        inverse = {"cot": "tan", "sec": "cos", "csc": "sin"}.get(op)
        if inverse:
            return 1 / self.functions[inverse](x)
        if op == "exp" and abs(x) > self.arithmetic.biggest:
            raise Unsure("an exponential out of range")
        if op in ("sinh", "cosh", "tanh"):
            return self.hyperbolic(op, x)
        if op not in self.functions:
            raise Unsure(f"{op} has no value")
        if 0 < abs(x) < 10 ** (-self.arithmetic.digits / 4):
            raise Unsure("an argument so small that digits are lost")
        result = self.functions[op](x)
        if abs(result) < self.arithmetic.cancels * min(1, abs(x)):
            raise Unsure("digits lost near a zero")
        return result

    def hyperbolic(self, op: str, x: Value) -> Value:
        """By sums, which tell when a term is lost: tanh 1000 is not 1."""
        up, down = self.functions["exp"](x) / 2, self.functions["exp"](-x) / 2
        sinh, cosh = self.add([up, -down]), self.add([up, down])
        return {"sinh": sinh, "cosh": cosh, "tanh": sinh / cosh}[op]

    def on_reals(self, op: str, args: list[Value]) -> Value:
        if any(abs(arg.imag) > 0 for arg in args):
            raise Unsure(f"{op} of a complex number")
        reals = [arg.real for arg in args]
        number = self.arithmetic.number
        if op in ("max", "min"):
            return number(Fraction(0)) + (max(reals) if op == "max" else min(reals))
        if op == "mod":
            return number(Fraction(self.whole(args[0]) % self.whole(args[1])))
        if op in ("floor", "ceil"):
            return number(Fraction(self.rounded(reals[0], op)))
        if op in ("factorial", "double_factorial", "binom") and max(abs(x) for x in reals) > 1e7:
            raise Unsure(f"{op} of a number too big")
        if op == "factorial" and reals[0] > 1000:
            return _checked(self.functions["gamma"](args[0] + 1), self.arithmetic)
        wholes = [Number(Fraction(self.whole(arg))) for arg in args]
        return number(exact(Call(op, tuple(wholes)), 1 << 14))

    def rounded(self, x: Any, op: str) -> int:
        near = round(x)
        if abs(x - near) < 10.0 ** (6 - self.arithmetic.digits) * max(1, abs(near)):
            return int(near)
        return int(math.floor(x) if op == "floor" else math.ceil(x))  # mpmath floors to a float

    def whole(self, x: Value) -> int:
        if abs(x) > 1e15 or abs(x - round(x.real)) > 1e-9:
            raise Unsure("a whole number was expected")
        return int(round(x.real))  # noqa: RUF046 mpmath rounds to a float
