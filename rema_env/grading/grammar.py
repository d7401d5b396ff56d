"""From tokens to expressions: the grammar of school mathematics, in LaTeX or plain text.

Sums, products (also unwritten), fractions, mixed numbers, powers, roots, functions, factorials, names with subscripts.
It evaluates nothing, and its depth is bounded.
"""

from __future__ import annotations

from fractions import Fraction

from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.latex import Unreadable

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln exp gcd lcm max min lg arg".split()
)
_GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
    " omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega hbar ell infty mho odot prime triangle angle"
    " circ nabla partial".split()
)
_ACCENTS = frozenset("hat bar vec tilde dot ddot overline overrightarrow widehat mathbb mathcal mathfrak text".split())
_CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "|": "|", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_STOPS = frozenset(
    ["+", "-", "*", "/", "\\cdot", "\\times", "\\div", "\\pm", "\\mp", ")", "]", "}", "\\}", ",", "\\bmod"]
)
_DEPTH = 50


def read(tokens: list[str]) -> Expr:
    """The expression that all tokens together say. Raises Unreadable."""
    reader = _Reader(tokens)
    expr = reader.stacked()
    if reader.at < len(tokens):
        raise Unreadable(f"{tokens[reader.at]!r} where an expression ends")
    return expr


class _Reader:
    """A recursive descent over tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.bars = 0  # how many |...| are open

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def take(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise Unreadable(f"{token!r} is missing")

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

    def begins_factor(self, token: str) -> bool:
        if token in _STOPS or (token == "|" and self.bars):
            return False
        return token[0].isalnum() or token in ("(", "{", "[", "|") or token[0] == "." or _is_factor_command(token)

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
            return Call("neg", (self.atom(),))
        expr = self.atom()
        if self.peek() != "^" or self.tokens[self.at + 1 : self.at + 2] == ["\\circ"]:
            return expr
        self.at += 1
        self.depth += 1
        if self.depth > _DEPTH:
            raise Unreadable("a tower of powers")
        return Call("pow", (expr, self.script()))

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
        if token.isdigit() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return Number(Fraction(int(token[0])))
        return self.atom()

    def atom(self) -> Expr:
        token = self.next()
        if not token:
            raise Unreadable("something is missing at the end")
        if token[0].isdigit() or token[0] == ".":
            return self.number(token)
        if token in _CLOSERS and token != "\\{":
            return self.bracketed(token)
        if len(token) == 1 and token.isalpha():
            return self.named(token)
        if token.startswith("\\text{") and token[6:-1].replace(" ", "").isalpha():
            return self.named(token[6:-1].replace(" ", ""))
        if token[0] == "\\":
            return self.command(token[1:])
        raise Unreadable(f"{token!r} in an expression")

    def bracketed(self, opener: str) -> Expr:
        self.bars += opener == "|"
        if opener == "{":
            self.at -= 1
            return self.group()
        expr = self.sum()
        self.expect(_CLOSERS[opener])
        self.bars -= opener == "|"
        wrap = {"|": "abs", "\\lfloor": "floor", "\\lceil": "ceil"}.get(opener)
        return Call(wrap, (expr,)) if wrap else expr

    def number(self, token: str) -> Expr:
        value = _fraction(token)
        measured = "." in token or "e" in token.lower()
        if self.peek() in ("\\overline", "\\bar", "\\dot") and token[-1:] != "" and "." in token:
            return Number(_repeating(token, self.digits()))
        if token.isdigit():
            mixed = self.mixed()
            if mixed is not None:
                return Number(value + mixed)
        return Number(value, measured)

    def digits(self) -> str:
        """The digits under a bar, `\\overline{36}`."""
        self.at += 1
        braced = self.take("{")
        digits = self.next()
        if not digits.isdigit():
            raise Unreadable("a bar over something other than digits")
        if braced:
            self.expect("}")
        return digits

    def mixed(self) -> Fraction | None:
        """The proper fraction after a whole number, as in `3\\frac{2}{5}` and `3 2/5`, or None."""
        start = self.at
        if self.take("\\frac"):
            copy = list(self.tokens)
            try:
                over, under = self.argument(), self.argument()
            except Unreadable:
                over = under = Name("")
            if isinstance(over, Number) and isinstance(under, Number) and _proper(over.value, under.value):
                return over.value / under.value
            self.at, self.tokens = start, copy
        elif self.peek().isdigit() and self.tokens[self.at + 1 : self.at + 2] == ["/"]:
            below = "".join(self.tokens[self.at + 2 : self.at + 3])
            if below.isdigit() and _proper(Fraction(int(self.peek())), Fraction(int(below))):
                over_value = int(self.peek())
                self.at += 3
                return Fraction(over_value, int(below))
        return None

    def named(self, name: str) -> Expr:
        """A letter with its subscript or arguments; also the binomials `C_{10}^3` and `C(10, 3)`."""
        if self.take("_"):
            name = f"{name}_{self.subscript()}"
            if self.peek() == "^" and name[:2] == "C_" and name[2:].isdigit():
                self.at += 1
                return Call("binom", (Number(Fraction(int(name[2:]))), self.script()))
        match self.tokens[self.at : self.at + 5]:
            case ["(", n, ",", k, ")"] if name == "C" and n.isdigit() and k.isdigit():
                self.at += 5
                return Call("binom", (Number(Fraction(int(n))), Number(Fraction(int(k)))))
        return self.applied(name)

    def applied(self, name: str) -> Expr:
        """A name; with a lone atom in parentheses behind it a function, `f(x)`, `I(0)`, `f'(1)`."""
        lone = self.tokens[self.at : self.at + 3]
        if len(lone) == 3 and lone[0] == "(" and lone[2] == ")" and (lone[1].isalnum() or lone[1][1:] in _GREEK):
            self.at += 1
            argument = self.atom()
            self.expect(")")
            return Call("apply", (Name(name), argument))
        return Name(name)

    def subscript(self) -> str:
        if not self.take("{"):
            return self.next().lstrip("\\")
        depth, parts = 1, []
        while depth:
            token = self.next()
            if not token:
                raise Unreadable("a subscript does not end")
            depth += (token == "{") - (token == "}")
            if depth and token not in ("{", "}", "\\text"):
                parts.append(token[6:-1] if token.startswith("\\text{") else token)
        return "".join(parts)

    def command(self, name: str) -> Expr:
        if name == "frac":
            return Call("div", (self.argument(), self.argument()))
        if name == "sqrt":
            return self.root()
        if name == "binom":
            return Call("binom", (self.argument(), self.argument()))
        if name == "log":
            return self.log()
        if name in FUNCTIONS:
            return self.function(name)
        if name in ("sum", "prod"):
            return self.series(name)
        if name in _GREEK:
            return self.named(name)
        if name in _ACCENTS:
            return self.accented(name)
        raise Unreadable(f"\\{name}")

    def accented(self, name: str) -> Expr:
        at = self.at
        text = self.subscript() if self.peek() == "{" else self.next().lstrip("\\")
        if not text:
            raise Unreadable(f"\\{name} of nothing")
        if name == "overline" and text.isdigit():
            raise Unreadable("a bar over digits without a decimal point")
        if name == "text":
            self.at = at
            return self.argument()
        return self.named(f"{name} {text}")

    def root(self) -> Expr:
        index: Expr = Number(Fraction(2))
        if self.take("["):
            index = self.sum()
            self.expect("]")
        return Call("root", (self.argument(), index))

    def log(self) -> Expr:
        base: Expr | None = None
        if self.take("_"):
            if self.peek() == "{":
                base = self.group()
            else:
                after = self.tokens[self.at + 1 : self.at + 2]
                base = self.atom() if after and self.begins_factor(after[0]) else self.argument()
        power = self.script() if self.take("^") else None
        argument = self.operand()
        call = Call("log", (argument,) if base is None else (argument, base))
        return call if power is None else Call("pow", (call, power))

    def function(self, name: str) -> Expr:
        power = self.script() if self.take("^") else None
        if name in ("gcd", "lcm", "max", "min"):
            call = Call(name, self.several())
        else:
            if power == Call("neg", (Number(Fraction(1)),)) and name in ("sin", "cos", "tan"):
                name, power = "arc" + name, None
            call = Call(name, (self.operand(),))
        return call if power is None else Call("pow", (call, power))

    def several(self) -> tuple[Expr, ...]:
        closer = ")" if self.take("(") else "\\}" if self.take("\\{") else "}"
        if closer == "}":
            self.expect("{")
        args = [self.sum()]
        while self.take(","):
            args.append(self.sum())
        self.expect(closer)
        return tuple(args)

    def operand(self) -> Expr:
        """A function's argument: a group, else the factors written side by side up to the next sign or function."""
        if self.peek() in ("(", "{", "["):
            return self.power() if self.peek() != "{" else self.group()
        expr = self.factor()
        while self.begins_factor(self.peek() or ")") and self.peek() not in ("(", "[", "{"):
            if self.peek()[1:] in FUNCTIONS or self.peek() == "\\log":
                break
            expr = Call("mul", (expr, self.power()))
        return expr

    def series(self, name: str) -> Expr:
        self.expect("_")
        self.expect("{")
        variable = self.atom()
        self.expect("=")
        low = self.sum()
        self.expect("}")
        self.expect("^")
        return Call(name, (variable, low, self.script(), self.product()))


def _product(factors: list[Expr]) -> Expr:
    return factors[0] if len(factors) == 1 else Call("mul", tuple(factors))


def _is_factor_command(token: str) -> bool:
    name = token[1:]
    if token.startswith("\\text{"):
        return len(token) == 8
    return token[0] == "\\" and (
        name in FUNCTIONS
        or name in _GREEK
        or name in _ACCENTS
        or name in ("frac", "sqrt", "binom", "log", "lfloor", "lceil", "sum", "prod")
    )


def _decorated(expr: Expr, mark: str) -> str:
    if not isinstance(expr, Name):
        raise Unreadable("a prime on something other than a name")
    return expr.text + mark


def _proper(over: Fraction, under: Fraction) -> bool:
    return 0 < over < under and over.denominator == under.denominator == 1


def _fraction(token: str) -> Fraction:
    """The exact value of a written number. Exponents beyond a few thousand are not numbers anyone writes."""
    mantissa, _, exponent = token.lower().partition("e")
    if len(exponent) > 5 or len(mantissa) > 4000:
        raise Unreadable("a number of that size")
    whole, _, decimals = mantissa.partition(".")
    value = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
    return value * Fraction(10) ** int(exponent) if exponent else value


def _repeating(token: str, digits: str) -> Fraction:
    """`0.1` with `6` under a bar is 1/6."""
    decimals = len(token.partition(".")[2])
    return _fraction(token.rstrip(".")) + Fraction(int(digits), (10 ** len(digits) - 1) * 10**decimals)
