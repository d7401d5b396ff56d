"""Answers in words: names, options, verdicts, clock times, and the many ways to say that there is no solution."""

from __future__ import annotations

import re

_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_NOISE = re.compile(r"\\(?:text|mathcal)(?![a-z])|[{}$\\\"*]|(?<=\d)(?:st|nd|rd|th)\b")
_ARTICLE = re.compile(r"(?:an?|the) (?=\w[\w-])")
_BLANKS = re.compile(r"\s+")
_BARE = re.compile(r"[A-Za-z][A-Za-z .,'\-]*")
_OPTIONS = re.compile(r"[A-Z](?:\s*,\s*[A-Z])+")
_OPTION = re.compile(r"[(\[]{0,2}\s*([A-Za-z])\s*[)\]]{0,2}")
_NAMED_OPTION = re.compile(
    r"(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|option|choice|response|assistant|model|statement)(?:\s+is)?\s*:?\s*\(?([a-z])\)?",
)
_LABELLED_OPTION = re.compile(r"(?:\(([A-Z])\)[\s:.]*|([A-Z])[).:]\s+)(.+)", re.DOTALL)
_OTHER_OPTION = re.compile(r"\([A-Z]\)|\b(?:or|and)\b|^[A-Z]\b|,\s*[A-Z]\b")
_WORDS = re.compile(r"[A-Za-z][A-Za-z .:]*")
_NAMED_POINT = re.compile(r"\b[A-Z](?:_\d|')?\s*(?=\()")
_CLOCK = re.compile(r"(\d{1,2})(?:\s*:\s*(\d\d))?(?:\s*:\s*(\d\d))?\s*([ap])?\.?\s*(?:m\.?)?")
_PREFIX = re.compile(
    r"^(?:\\(?:therefore|Rightarrow|to)\b\s*"
    r"|\\text\s*\{(?![^{}]*\b(?:no|not|never|wrong|incorrect|except|unless|maybe|guess)\b)[A-Za-z ]*"
    r"(?::|\b(?:is|are|equals))\s*\}\s*|(?:\\text\s*\{)?\s*(?:(?:so|thus|therefore|hence|it|the|all|final|answer|answers"
    r"|solution|solutions|value|result|point|points|interval|set|exactly|is|are|equals?)\b[\s:,]*)+(?:\}\s*)?)",
    re.IGNORECASE,
)
_SUFFIX = re.compile(
    r"\s*(?:,\s*)?(?:(?:\\text\s*\{\s*,?\s*)?for (?:all|any|every|each)\b|\\forall\b).*$"
    r"|\s*[,;]\s*(?:\\text\s*\{[^{}\d]*\}\s*)?[a-z]\s*\\in\s*\\mathbb\s*\{?\s*[NZQR]\s*\}?(?:\s*[\^_]\s*\{?\s*[*+]\s*\}?)?$",
    re.DOTALL,
)
_CONDITION = re.compile(
    r"\s*[,;]?\s*(?:\\text\s*\{\s*,?\s*\(?(?:for|where|with)(?: (?:all|any|integers?))?\s*\}|\((?:for )?|,)\s*([a-z])"
    r"\s*(?:\\in\b|\\ge\b|[<>]=?)[^()\[\],]*\)?$"
)
_BOUND = re.compile(r"[<>]|\\(?:le|ge|ne|in)(?![a-z])")  # with these, a condition is part of the answer
_EITHER = re.compile(r"\bor\b")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_EMPTY = re.compile(
    r"(?:[A-Za-z](?:\s*\\cap\s*[A-Z])?\s*(?:\\in|=)\s*)?(?:\\emptyset|Ø)|\\\{\s*\\\}"
    r"|(?:there (?:is|are) )?no (?:real |integer |such )?"
    r"(?:solutions?|values?|numbers?|integers?|roots?|pairs?|points?|[a-z])(?: exists?)?|(?:the )?empty(?: set)?|none"
)
_SAME = {"dne": "does not exist", "infinitely many solutions": "infinitely many"}
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBER_WORDS = (
    {word: str(number) for number, word in enumerate(_SMALL)}
    | {ten: str(10 * tens) for tens, ten in enumerate(_TENS, 2)}
    | {f"{ten} {_SMALL[ones]}": str(10 * tens + ones) for tens, ten in enumerate(_TENS, 2) for ones in range(1, 10)}
    | {"one hundred": "100", "a hundred": "100"}
)


def plain(text: str) -> str:
    """The bare words: lower case, no LaTeX wrappers, single blanks, no punctuation at the ends."""
    bare = _BLANKS.sub(" ", _NOISE.sub("", text)).strip(" .,;:!?").casefold()
    return _SAME.get(bare, bare)


def is_words(text: str) -> bool:
    """Whether a cleaned golden answer is words rather than mathematics."""
    outside = _TEXT.sub("", text)
    if any(
        len(_letters(found[1])) > 0 and text[: found.start()].rstrip(" {")[-1:] != "_" for found in _TEXT.finditer(text)
    ):
        inside = "".join(found[1] for found in _TEXT.finditer(text))
        joined = re.fullmatch(r"[\s,]*(?:and|or)[\s,]*", inside)
        return not joined and not re.search(r"[\d=<>^]|\\[a-z]", outside)
    if _OPTION.fullmatch(text):
        return text.strip("() ").isupper()
    if _OPTIONS.fullmatch(text):
        return True
    if not _BARE.fullmatch(text):
        return False
    return any(len(word) > 3 or (len(word) > 1 and word[0].isupper()) for word in re.findall("[A-Za-z]+", text))


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalpha())


def is_no_solution(text: str) -> bool:
    """Whether the cleaned answer says that nothing is a solution."""
    return bool(_EMPTY.fullmatch(text) or _EMPTY.fullmatch(plain(text)))


def without_frame(text: str) -> str:
    r"""Without a lead-in such as `\text{The answer is }` and a quantifier such as `\text{ for all } x` at the end.

    The text itself where nothing would remain.
    """
    text = _without_condition(text)
    rest = _PREFIX.sub("", _SUFFIX.sub("", text, count=1), count=1).strip(" ,;")
    return rest or text


def _without_condition(text: str) -> str:
    r"""Without `(n \ge 1)` or `\text{ for } n \ge 1` at the end, where it is about a letter of the answer."""
    condition = _CONDITION.search(text)
    if not condition:
        return text
    rest = text[: condition.start()]
    return text if _BOUND.search(rest) or condition[1] not in _COMMAND.sub("", rest) else rest


def as_number(text: str) -> str | None:
    """The digits for a number in words up to a hundred, `four` -> `4`, `twenty-one` -> `21`, else None."""
    return _NUMBER_WORDS.get(plain(text).replace("-", " "))


def same_words(gold: str, said: str) -> bool:
    """Whether two cleaned answers in words agree: names and verdicts whole, options by letter, letters in any order."""
    gold_plain, said_plain = plain(gold), plain(said)
    if _ARTICLE.sub("", gold_plain, count=1) == _ARTICLE.sub("", said_plain, count=1):
        return True
    letter = _OPTION.fullmatch(gold_plain)
    if letter:
        return option(said) == letter[1]
    if as_number(gold) is not None and as_number(gold) == said_plain:
        return True
    if _EITHER.search(said_plain) and not _EITHER.search(gold_plain):
        return False
    gold_items, said_items = _items(gold_plain), _items(said_plain)
    if len(gold_items) > 1 and all(len(item) == 1 for item in gold_items):
        return sorted(gold_items) == sorted(said_items)
    return len(gold_items) > 1 and gold_items == said_items


def _items(text: str) -> list[str]:
    return [item.strip(" ()") for item in re.split(r",\s*(?:and|or)?|\band\b|\bor\b|;", text) if item.strip(" ()")]


def labelled_option(gold: str) -> str | None:
    """The letter of a golden answer such as `(C) 12`, in lower case, or None."""
    return option(gold) if _LABELLED_OPTION.fullmatch(_NOISE.sub("", gold).strip()) else None


def option(said: str) -> str | None:
    """The one option letter that is said, in lower case, or None."""
    bare = plain(said)
    match = _OPTION.fullmatch(bare) or _NAMED_OPTION.fullmatch(bare)
    if match:
        return match[1].lower()
    labelled = _LABELLED_OPTION.fullmatch(_NOISE.sub("", said).strip())
    if labelled and not _OTHER_OPTION.search(labelled[3]):
        return str(labelled[1] or labelled[2]).lower()
    return None


def spread(text: str) -> str:
    r"""With the numbers and signs in a `\text{}` group outside it: `\text{2 and 5}` is `2 \text{ and } 5`."""
    return _TEXT.sub(lambda group: _WORDS.sub(r"\\text{\g<0>}", group[1].rstrip(" .,;:")), without_option(text))


def without_name(said: str) -> str:
    """`P(3, 7)` is the point (3, 7)."""
    return _NAMED_POINT.sub("", said)


def without_option(said: str) -> str:
    """`(C) 12` is 12 where the golden answer is a number."""
    bare = re.sub(r"^\\text\s*\{([^{}]*)\}$", r"\1", said)
    labelled = _LABELLED_OPTION.fullmatch(re.sub(r"^\\text\s*\{\s*(\(?[A-Z][).:]\s*)\}", r"\1", bare))
    return labelled[3] if labelled else said


def clock(text: str) -> tuple[int, int, int, str] | None:
    """(hours, minutes, seconds, "a", "p" or "") of a time of day, None where it is none."""
    match = _CLOCK.fullmatch(plain(text))
    if not match or (match[2] is None and match[4] is None):
        return None
    return int(match[1]), int(match[2] or 0), int(match[3] or 0), match[4] or ""


def same_time(gold: tuple[int, int, int, str], said: tuple[int, int, int, str]) -> bool:
    """Equal on the clock; morning or afternoon must agree where both say it, and 15:00 says it."""
    if gold[3] or said[3]:
        gold, said = _twelve_hours(gold), _twelve_hours(said)
    return gold[:3] == said[:3] and (not gold[3] or not said[3] or gold[3] == said[3])


def _twelve_hours(time: tuple[int, int, int, str]) -> tuple[int, int, int, str]:
    hours, minutes, seconds, half = time
    return (hours - 12, minutes, seconds, "p") if hours > 12 and not half else time
