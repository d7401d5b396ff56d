"""Spaces for text: `FreeText` (what a seat says) and `Chat` (what it sees).

`gymnasium.spaces.Text` needs an enumerated character set and refuses a blank by default; a model says anything.
"""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Space

MAX_CHARACTERS = 2**20
CHAT_ROLES = ("system", "user", "assistant")

_WORDS = ("so", "then", "add", "the", "parts", "7", "12", "first", "again", "check", "it", "x", "=")


def valid_unicode(text: str) -> str:
    """The text with what no encoding accepts replaced: surrogate pairs become their character, lone ones U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class FreeText(Space[str]):
    """Any string of at most `max_length` characters, the empty one included.

    Samples are short and made of plain words: they never hold a finish flag or an answer.
    """

    def __init__(self, max_length: int = MAX_CHARACTERS, seed: int | None = None) -> None:
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1 character, got {max_length}")
        super().__init__(dtype=str, seed=seed)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed size."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Three words, drawn by the space's generator. Masks do not apply to text and are ignored."""
        number = int(self.np_random.integers(len(_WORDS) ** 3))
        words = (_WORDS[number // len(_WORDS) ** k % len(_WORDS)] for k in range(3))
        return " ".join(words)[: self.max_length]

    def contains(self, x: Any) -> bool:
        """True for a `str` that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    def to_jsonable(self, sample_n: Any) -> list[str]:
        """The samples themselves: a string is JSON."""
        return [str(text) for text in sample_n]

    def from_jsonable(self, sample_n: Any) -> list[str]:
        """The inverse of `to_jsonable`."""
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((FreeText, self.max_length))

    def __repr__(self) -> str:
        return f"FreeText({self.max_length})"


class Chat(Space[tuple[dict[str, str], ...]]):
    """A tuple of messages `{"role": "system" | "user" | "assistant", "content": str}` of any length."""

    def __init__(self, seed: int | None = None) -> None:
        self._text = FreeText()
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: a chat has no fixed size."""
        return False

    def seed(self, seed: int | None = None) -> Any:
        """Seeds this space and the words its messages are made of."""
        self._text.seed(seed)
        return super().seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> tuple[dict[str, str], ...]:
        """A system prompt, a question and up to three further messages."""
        length = 2 + int(self.np_random.integers(4))
        roles = ["system", *("user" if k % 2 == 0 else "assistant" for k in range(length - 1))]
        return tuple({"role": role, "content": self._text.sample()} for role in roles)

    def contains(self, x: Any) -> bool:
        """True for a tuple of well-formed messages."""
        return isinstance(x, tuple) and all(
            isinstance(m, dict)
            and m.keys() == {"role", "content"}
            and m["role"] in CHAT_ROLES
            and isinstance(m["content"], str)
            for m in x
        )

    def to_jsonable(self, sample_n: Any) -> list[list[dict[str, str]]]:
        """Each chat as a list of messages."""
        return [[dict(message) for message in chat] for chat in sample_n]

    def from_jsonable(self, sample_n: Any) -> list[tuple[dict[str, str], ...]]:
        """The inverse of `to_jsonable`."""
        return [tuple(dict(message) for message in chat) for chat in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chat)

    def __hash__(self) -> int:
        return hash(Chat)

    def __repr__(self) -> str:
        return "Chat()"
