"""The tokens of an expression, read one after the other, and what kinds of them there are."""

from __future__ import annotations

from rema_env.grading.latex import Unreadable

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln exp gcd lcm max min lg arg".split()
)
GREEK = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi"
    " omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega hbar ell infty mho odot prime triangle angle"
    " circ nabla partial".split()
)
ACCENTS = frozenset("hat bar vec tilde dot ddot overline widehat mathbb mathcal mathfrak text".split())
DOUBTS = frozenset(
    "not if maybe perhaps possibly probably or either unless except wrong incorrect never else but".split()
)
INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arctan", "sec": "arccos", "csc": "arcsin"}
CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "|": "|", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
STOPS = frozenset(
    ["+", "-", "*", "/", "\\cdot", "\\times", "\\div", "\\pm", "\\mp", ")", "]", "}", "\\}", ",", "\\bmod"]
)


class Cursor:
    """A place among tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.bars = 0  # how many |...| are open

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        """The next token, which is passed."""
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def take(self, token: str) -> bool:
        """Pass the next token where it is this one; whether it was."""
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        """Pass this token. Raises Unreadable where another comes."""
        if not self.take(token):
            raise Unreadable(f"{token!r} is missing")

    def begins_factor(self, token: str) -> bool:
        """Whether a factor can begin with this token, also without a sign before it."""
        if token in STOPS or (token == "|" and self.bars):
            return False
        return token[0].isalnum() or token in ("(", "{", "[", "|") or token[0] == "." or _is_factor_command(token)


def _is_factor_command(token: str) -> bool:
    name = token[1:]
    if token.startswith("\\text{"):
        return len(token) == 8
    return token[0] == "\\" and (
        name in FUNCTIONS
        or name in GREEK
        or name in ACCENTS
        or name in ("frac", "sqrt", "binom", "log", "lfloor", "lceil", "sum", "prod")
    )
