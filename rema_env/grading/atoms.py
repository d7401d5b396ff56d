"""What stands between the signs of an expression: numbers, names, brackets, and commands with their arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from rema_env.grading.cursor import ACCENTS, CLOSERS, DOUBTS, FUNCTIONS, GREEK, INVERSES, Cursor
from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.latex import Unreadable
from rema_env.grading.numerals import decimal, is_proper, repeating


class Atoms(Cursor, ABC):
    """Reads one atom; what its arguments are made of is the grammar's."""

    @abstractmethod
    def sum(self) -> Expr:
        """Terms with signs between them."""

    @abstractmethod
    def product(self) -> Expr:
        """Factors, with or without signs between them."""

    @abstractmethod
    def factor(self) -> Expr:
        """A power that may carry a sign."""

    @abstractmethod
    def power(self) -> Expr:
        """An atom with its exponents and marks."""

    @abstractmethod
    def script(self) -> Expr:
        """An exponent."""

    @abstractmethod
    def group(self) -> Expr:
        """What stands in braces."""

    @abstractmethod
    def argument(self) -> Expr:
        """What TeX takes as one argument: a group, or a single digit or atom."""

    def atom(self) -> Expr:
        """The next atom. Raises Unreadable where none comes."""
        token = self.next()
        if not token:
            raise Unreadable("something is missing at the end")
        if token[0].isdecimal() or token[0] == ".":
            return self.number(token)
        if token in CLOSERS and token != "\\{":
            return self.bracketed(token)
        if len(token) == 1 and token.isalpha():
            return self.named(token)
        if token.startswith("\\text{") and token[6:-1].replace(" ", "").isalpha():
            if not DOUBTS.isdisjoint(token[6:-1].lower().split()):
                raise Unreadable(f"{token} in an expression")
            word = token[6:-1].replace(" ", "")
            return Call("mul", tuple(map(Name, word))) if 1 < len(word) < 5 and word.isupper() else self.named(word)
        if token[0] == "\\":
            return self.command(token[1:])
        raise Unreadable(f"{token!r} in an expression")

    def bracketed(self, opener: str) -> Expr:
        """What stands between brackets: as it is, or its absolute value, floor or ceiling."""
        self.bars += opener == "|"
        if opener == "{":
            self.at -= 1
            return self.group()
        expr = self.sum()
        self.expect(CLOSERS[opener])
        self.bars -= opener == "|"
        wrap = {"|": "abs", "\\lfloor": "floor", "\\lceil": "ceil"}.get(opener)
        return Call(wrap, (expr,)) if wrap else expr

    def number(self, token: str) -> Expr:
        """A number from its first token: decimal, repeating, or mixed."""
        value = decimal(token)
        measured = "." in token or "e" in token.lower()
        if self.peek() in ("\\overline", "\\bar", "\\dot") and token[-1:] != "" and "." in token:
            return Number(repeating(token, self.digits()))
        if token.isdecimal():
            mixed = self.mixed()
            if mixed is not None:
                return Number(value + mixed)
        return Number(value, measured)

    def whole(self) -> Expr:
        r"""A number as it stands, which no fraction behind it makes a mixed one: the 3 of `x^3\frac12`."""
        token = self.next()
        return Number(decimal(token), "." in token)

    def digits(self) -> str:
        """The digits under a bar, `\\overline{36}`."""
        self.at += 1
        braced = self.take("{")
        digits = self.next()
        if not digits.isdecimal():
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
            if isinstance(over, Number) and isinstance(under, Number) and is_proper(over.value, under.value):
                return over.value / under.value
            self.at, self.tokens = start, copy
        elif self.peek().isdecimal() and self.tokens[self.at + 1 : self.at + 2] == ["/"]:
            below = "".join(self.tokens[self.at + 2 : self.at + 3])
            if below.isdecimal() and is_proper(Fraction(int(self.peek())), Fraction(int(below))):
                over_value = int(self.peek())
                self.at += 3
                return Fraction(over_value, int(below))
        return None

    def named(self, name: str) -> Expr:
        """A letter with its subscript or arguments; also the binomials `C_{10}^3` and `C(10, 3)`."""
        chosen = self.chosen() if name == "C" and self.peek() in ("_", "(") else None
        if chosen:
            return chosen
        if self.take("_"):
            name = f"{name}_{self.subscript()}"
        return self.applied(name)

    def chosen(self) -> Expr | None:
        """The binomial that begins with this C, or None where it is a name."""
        start, copy = self.at, list(self.tokens)
        try:
            if self.take("("):
                total = self.sum()
                self.expect(",")
                call = Call("binom", (total, self.sum()))
                self.expect(")")
                return call
            self.expect("_")
            total = self.group() if self.peek() == "{" else _number_or_letter(self.next())
            self.expect("^")
            return Call("binom", (total, self.script()))
        except Unreadable:
            self.at, self.tokens = start, copy
        return None

    def applied(self, name: str) -> Expr:
        """A name; with a lone atom in parentheses behind it a function, `f(x)`, `I(0)`, `f'(1)`; pi is a factor."""
        lone = self.tokens[self.at : self.at + 3] if name != "pi" else []
        if len(lone) == 3 and lone[0] == "(" and lone[2] == ")" and (lone[1].isalnum() or lone[1][1:] in GREEK):
            self.at += 1
            argument = self.atom()
            self.expect(")")
            return Call("apply", (Name(name), argument))
        return Name(name)

    def subscript(self) -> str:
        """A subscript as text."""
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
        """A command with its arguments."""
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
        if name in GREEK:
            return self.named(name)
        if name in ACCENTS:
            return self.accented(name)
        raise Unreadable(f"\\{name}")

    def accented(self, name: str) -> Expr:
        """A name with a hat, a bar and the like."""
        at = self.at
        text = self.subscript() if self.peek() == "{" else self.next().lstrip("\\")
        if not text:
            raise Unreadable(f"\\{name} of nothing")
        if name == "overline" and text.isdecimal():
            raise Unreadable("a bar over digits without a decimal point")
        if name == "text":
            self.at = at
            return self.argument()
        return self.named(f"{name} {text}")

    def root(self) -> Expr:
        """A root with its index."""
        index: Expr = Number(Fraction(2))
        if self.take("["):
            index = self.sum()
            self.expect("]")
        return Call("root", (self.argument(), index))

    def log(self) -> Expr:
        """A logarithm with its base."""
        base: Expr | None = None
        if self.take("_"):
            if self.peek() == "{":
                base = self.group()
            else:
                after = self.tokens[self.at + 1 : self.at + 2]
                lone = not after or not self.begins_factor(after[0])
                base = self.argument() if lone else self.whole() if self.peek().isdecimal() else self.atom()
        power = self.script() if self.take("^") else None
        argument = self.operand()
        call = Call("log", (argument,) if base is None else (argument, base))
        return call if power is None else Call("pow", (call, power))

    def function(self, name: str) -> Expr:
        """A function, its exponent where there is one, and its argument."""
        power = self.script() if self.take("^") else None
        if name in ("gcd", "lcm", "max", "min"):
            call = Call(name, self.several())
        else:
            inverse = INVERSES.get(name) if power == Call("neg", (Number(Fraction(1)),)) else None
            argument = self.operand()
            if inverse:
                power = None
                argument = Call("div", (Number(Fraction(1)), argument)) if name in ("cot", "sec", "csc") else argument
            call = Call(inverse or name, (argument,))
        return call if power is None else Call("pow", (call, power))

    def several(self) -> tuple[Expr, ...]:
        """Arguments between brackets, parted by commas."""
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
        """A sum or product over a range."""
        self.expect("_")
        self.expect("{")
        variable = self.atom()
        self.expect("=")
        low = self.sum()
        self.expect("}")
        self.expect("^")
        return Call(name, (variable, low, self.script(), self.product()))


def _number_or_letter(token: str) -> Expr:
    """A whole number or a letter."""
    if token.isdecimal():
        return Number(decimal(token))
    if len(token) == 1 and token.isalpha():
        return Name(token)
    raise Unreadable(f"{token!r} where a number or a letter was expected")
