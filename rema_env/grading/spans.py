"""A text as tokens that know their places, so that it can be split outside its brackets."""

from __future__ import annotations

from rema_env.grading.latex import lexemes

_OPENERS = frozenset(["(", "[", "\\{", "{", "\\langle", "\\lfloor", "\\lceil"])
_CLOSERS = frozenset([")", "]", "\\}", "}", "\\rangle", "\\rfloor", "\\rceil"])


class Spans:
    """The tokens of a text, and where its brackets are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lexemes = lexemes(text)
        self.tokens = [token for token, _, _ in self.lexemes]

    def split(self, separators: frozenset[str] | dict[str, str]) -> tuple[list[str], list[str]]:
        """The texts between the separators that stand outside all brackets, and those separators."""
        parts, found, depth, begin = [], [], 0, 0
        for token, start, end in self.lexemes:
            depth += (token in _OPENERS or token == "\\begin") - (token in _CLOSERS or token == "\\end")
            depth = max(depth, 0)
            if depth == 0 and token in separators:
                parts.append(self.text[begin:start].strip())
                found.append(token)
                begin = end
        return [*parts, self.text[begin:].strip()], found

    def is_one_bracket(self) -> bool:
        """Whether the first bracket closes at the very end."""
        depth = 0
        for number, token in enumerate(self.tokens):
            depth += (token in _OPENERS) - (token in _CLOSERS)
            if not depth:
                return number == len(self.tokens) - 1
        return False

    def after(self, separator: str) -> str:
        """The text behind the first such token."""
        return self.text[next(end for token, _, end in self.lexemes if token == separator) :].strip()

    def inside(self) -> str:
        """The text between the first and the last token."""
        return self.text[self.lexemes[0][2] : self.lexemes[-1][1]].strip()
