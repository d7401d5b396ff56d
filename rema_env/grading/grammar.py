"""From tokens to expressions: the grammar of school mathematics, in LaTeX or plain text.

Sums, products (also unwritten), fractions, mixed numbers, powers, roots, functions, factorials, names with subscripts.
It evaluates nothing, and its depth is bounded.
"""

from __future__ import annotations

from fractions import Fraction

from rema_env.grading.atoms import Atoms
from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.latex import Unreadable

_DEPTH = 50


def read(tokens: list[str]) -> Expr:
    """The expression that all tokens together say. Raises Unreadable."""
    reader = _Reader(tokens)
    expr = reader.stacked()
    if reader.at < len(tokens):
        raise Unreadable(f"{tokens[reader.at]!r} where an expression ends")
    return expr


class _Reader(Atoms):
    """A recursive descent over tokens: what binds atoms to one another."""

    def sum(self) -> Expr:
        self.depth += 1
        if self.depth > _DEPTH:
            raise Unreadable("nested too deeply")
        terms = [self.signed()]
        while self.peek() in ("+", "-", "\\pm", "\\mp"):
            sign = self.next()
            term = self.signed()
            terms.append(term if sign == "+" else Call({"-": "neg", "\\pm": "pm", "\\mp": "mp"}[sign], (term,)))
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Call("add", tuple(terms))

    def signed(self) -> Expr:
        """A product with signs in front; signs are taken in a loop, so that ten thousand of them nest nothing."""
        negative, wrap = False, ""
        while self.peek() in ("+", "-", "\\pm", "\\mp"):
            sign = self.next()
            if sign == "-":
                negative = not negative
            elif sign != "+":
                if wrap:
                    raise Unreadable("two signs of either kind")
                wrap = "pm" if sign == "\\pm" else "mp"
        expr = self.product()
        expr = Call("neg", (expr,)) if negative else expr
        return Call(wrap, (expr,)) if wrap else expr

    def product(self) -> Expr:
        factors, divisions = [self.power()], 0
        while True:
            token = self.peek()
            if token in ("*", "\\cdot", "\\times"):
                self.at += 1
                factors.append(self.factor())
            elif token in ("/", "\\div", "\\bmod"):
                self.at += 1
                divisions += 1
                op = "mod" if token == "\\bmod" else "div"
                factors = [Call(op, (_product(factors), self.factor()))]
            elif token and self.begins_factor(token):
                factors.append(self.power())
            else:
                return _product(factors)
            if divisions > _DEPTH:
                raise Unreadable("too many divisions")

    def factor(self) -> Expr:
        """What follows an explicit operator: a power that may carry a sign."""
        negative = False
        while self.peek() in ("-", "+"):
            negative ^= self.next() == "-"
        expr = self.power()
        return Call("neg", (expr,)) if negative else expr

    def power(self) -> Expr:
        expr = self.atom()
        for _ in range(_DEPTH):
            token = self.peek()
            if token == "^":
                self.at += 1
                if self.take("\\circ"):
                    expr = Call("degree", (expr,))
                elif self.peek() in ("\\prime", "'"):
                    expr = self.applied(_decorated(expr, "'" * self.primes()))
                else:
                    script = self.script()
                    marks = isinstance(script, Name) and not script.text.strip("'")
                    expr = self.applied(_decorated(expr, script.text)) if marks else Call("pow", (expr, script))  # type: ignore[union-attr]
            elif token in ("'", "\\prime"):
                expr = self.applied(_decorated(expr, "'" * self.primes()))
            elif token == "!":
                self.at += 1
                expr = Call("double_factorial" if self.take("!") else "factorial", (expr,))
            elif token in ("\\%", "%"):
                self.at += 1
                expr = Call("percent", (expr,))
            else:
                return expr
        raise Unreadable("too many marks on one atom")

    def primes(self) -> int:
        count = 0
        while self.peek() in ("\\prime", "'"):
            self.at += 1
            count += 1
        return count

    def script(self) -> Expr:
        """An exponent: a group, or one signed atom; a number counts whole (`2^10`), as in plain text."""
        if self.peek() == "{":
            return self.group()
        if self.take("-"):
            return Call("neg", (self.script_atom(),))
        expr = self.script_atom()
        if self.peek() != "^" or self.tokens[self.at + 1 : self.at + 2] == ["\\circ"]:
            return expr
        self.at += 1
        self.depth += 1
        if self.depth > _DEPTH:
            raise Unreadable("a tower of powers")
        return Call("pow", (expr, self.script()))

    def script_atom(self) -> Expr:
        return self.whole() if self.peek()[:1].isdecimal() else self.atom()

    def group(self) -> Expr:
        self.expect("{")
        if self.peek() in ("\\prime", "'"):
            count = self.primes()
            self.expect("}")
            return Name("'" * count)
        expr = self.stacked()
        self.expect("}")
        return expr

    def stacked(self) -> Expr:
        """A sum, or two of them as `a \\over b` or `n \\choose k`: all that stands in a group, or in the answer."""
        expr = self.sum()
        if self.take("\\choose"):
            return Call("binom", (expr, self.sum()))
        if self.take("\\over"):
            return Call("div", (expr, self.sum()))
        return expr

    def argument(self) -> Expr:
        """What TeX takes as one argument: a group, or a single digit or atom."""
        if self.peek() == "{":
            return self.group()
        token = self.peek()
        if token.isdecimal() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return Number(Fraction(int(token[0])))
        if token.isdecimal():
            return self.whole()
        return self.atom()


def _product(factors: list[Expr]) -> Expr:
    return factors[0] if len(factors) == 1 else Call("mul", tuple(factors))


def _decorated(expr: Expr, mark: str) -> str:
    if not isinstance(expr, Name):
        raise Unreadable("a prime on something other than a name")
    return expr.text + mark
