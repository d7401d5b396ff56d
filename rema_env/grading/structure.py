"""From cleaned LaTeX to answers: what is a list, a set, a point, a relation, a matrix, and which parts it has.

Only the structure is read here; each quantity in it goes to `grammar`, without its unit.
"""

from __future__ import annotations

import re

from rema_env.grading.answer import (
    Answer,
    Based,
    Bracket,
    Builder,
    Dots,
    Listing,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Reals,
    Relation,
    Residue,
    Union,
    Without,
)
from rema_env.grading.cursor import DOUBTS
from rema_env.grading.expression import Call, Name
from rema_env.grading.grammar import read
from rema_env.grading.latex import Unreadable, tokens
from rema_env.grading.points import names
from rema_env.grading.spans import Spans
from rema_env.grading.units import split_unit, written_out
from rema_env.grading.words import without_frame

SIGNS = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\ne": "!=", "\\approx": "~", "\\simeq": "~",
    "\\in": "in", "\\equiv": "=",
}  # fmt: skip
_FOREIGN = frozenset(["\\int", "\\iint", "\\oint", "\\lim", "\\det"])
_BASED = re.compile(
    r"(-?)\s*(?:\\text\s*\{\s*([0-9A-Za-z]+)\s*\}|\(?([0-9]+(?:\.[0-9]+)?|[A-F]*[0-9][0-9A-F]*)\)?)\s*_\s*(?:\{\s*(?:\\text\s*\{|\()?\s*(\w+)\s*[})]?\s*\}|(\d+))"
)
_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_SAID_BASE = re.compile(
    r"\s*(?:\\text\s*\{)?\s*\(?\s*(?:in\s+)?base[\s-]*(?:\}\s*|\\text\s*\{\s*)?(\w+)\s*\)?\s*\}?\s*\)?$"
)
_RESIDUE = re.compile(
    r"(.*?)\s*\(?\s*(?:\\p?mod(?![a-z])|(?<=\()\\bmod\b|\\text\s*\{\s*\(?mod\s*\}|\bmod\b)\s*\{?\s*([^{}()]+?)\s*\}?\s*\)?",
    re.DOTALL,
)
_OUTWARD = re.compile(r"([\[\]])([^\[\]()]*)([\[\]])")
_TO = re.compile(r"(?<=[\d}a-z])\s*(?:\\text\s*\{\s*to\s*\}|(?<=\s)to(?=\s))\s*(?=[\d\\a-z])")
_MINUS_SET = re.compile(r"(\\mathbb\s*\{?\s*[RCQZN]\s*\}?)\s*-\s*(?=\\\{|[(\[])")
_APPLIED = re.compile(
    r"(?:[A-Za-z]|\\(?:Pr|mathbb\s*\{?\s*[A-Z]\s*\}?|text\s*\{\s*[A-Za-z]+\s*\}))'*(?:_\w)?\s*\(.+\)", re.DOTALL
)
_ELEMENT = re.compile(r"[a-z](?:\s*\\in\b.*)?", re.DOTALL)
_NAMED_SET = re.compile(
    r"(?=.*[\\^])(?:[A-Z()' ]|[\^_](?:[A-Zc]|\{[A-Zc]\})|\\(?:cap|cup|setminus|complement)(?![a-z])"
    r"|\\(?:overline|mathbb) ?\{[A-Z]\})+"  # every alternative begins and ends in its own way: linear
)
_EXCEPT = re.compile(
    r"^(?:\\text\s*\{)?\s*(?:all )?real(?: number)?s? (?:[a-z] )?(?:except|other than|excluding)(?: for)?\s*\}?\s*"
    r"((?:(?!real).)+)$",
    re.IGNORECASE,
)
_AND = re.compile(r"\\text\s*\{\s*and\s*\}|\band\b")
_PLAIN_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,/] )(?<![\d.,/])\d{1,3}(?: \d{3})+(?!\d|\s*/|,\d)")
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?|(?:\\text\s*\{)?\s*(?:all )?real(?: number)?s?\s*\}?", re.IGNORECASE)
_CURVE = re.compile(
    r"(?i:(?:\\text\s*\{\s*)?(?:line|circle|ellipse|hyperbola|parabola|curve|plane)\s*\}\s*)?"  # less its article
    r"(?=[\\a-zA-Z])((?:\\(?:ell|odot|alpha|beta|gamma|pi|Gamma|Omega)(?![a-z])\s*)?(?:[A-Za-z]?|(?!NO|OR|IF)[A-Z]{2})(?:_(?:[A-Za-z]|\d|\{(?:[A-Za-z]|\d+)\})|'+)?)\s*:([^:]+)"
)
_COORDINATES = frozenset("x y rho".split())
_DEPTH = 20


def read_answer(text: str, *, thousands: bool = True, depth: int = 0) -> Answer:
    """The structure of a cleaned answer. Raises Unreadable.

    `thousands`: outside brackets, `48,250` is one number; without it, a list of two.
    """
    if depth > _DEPTH:
        raise Unreadable("nested too deeply")
    text = without_frame(text)
    if not text:
        raise Unreadable("nothing")
    if _REALS.fullmatch(text):
        return Reals()
    text = _respelled(text)
    if thousands:
        text = _joined_thousands(text)
    return _read(Spans(text), depth)


def _respelled(text: str) -> str:
    r"""One notation for open ends (`]2, 5[`), ratios (`3 to 4`) and sets without some of their elements."""
    text = _EXCEPT.sub(_without, _OUTWARD.sub(_inward, text))
    return _MINUS_SET.sub(r"\1 \\setminus ", _TO.sub(":", text))


def _without(match: re.Match[str]) -> str:
    return rf"\mathbb{{R}} \setminus \{{{_AND.sub(',', match[1])}\}}"


def _inward(ends: re.Match[str]) -> str:
    if "," not in ends[2] and ";" not in ends[2]:
        return ends[0]
    return ("(" if ends[1] == "]" else "[") + ends[2] + (")" if ends[3] == "[" else "]")


_SEPARATORS = frozenset([",", ";", "and", "or", "\\\\"])


def _read(spans: Spans, depth: int) -> Answer:
    parts, found = spans.split(_SEPARATORS)
    if found:
        return _listing(parts, found, depth)
    residue = _residue(spans.text, depth)
    if residue:
        return residue
    parts, signs = spans.split(SIGNS)
    if signs:
        return _named(spans.text, depth) or _relation(parts, signs, depth)
    for separator, kind in (("\\setminus", Without), ("\\cup", Union), (":", Ratio)):
        parts, found = spans.split(frozenset([separator]))
        if found:
            return kind(tuple(_again(part, depth) for part in parts))
    return _single(spans, depth)


def _again(part: str, depth: int) -> Answer:
    return read_answer(part, thousands=False, depth=depth + 1)


def _listing(parts: list[str], found: list[str], depth: int) -> Answer:
    kept = [part for part in parts if part]
    if not kept:
        raise Unreadable("separators alone")
    if len(kept) == 1:
        return _again(kept[0], depth)
    joined = "or" if "or" in found else "and" if "and" in found else ","
    return Listing(tuple(_again(part, depth) for part in kept), joined)


def _relation(parts: list[str], signs: list[str], depth: int) -> Answer:
    if not parts[0] and len(parts) == 2 and signs[0] in ("=", "\\approx"):
        return _again(parts[1], depth)  # "= 5", "\\approx 8.24"
    if not all(parts):
        raise Unreadable("a relation with nothing on one side")
    return Relation(
        (_left(parts[0], depth), *(_again(part, depth) for part in parts[1:])), tuple(SIGNS[sign] for sign in signs)
    )


def _named(text: str, depth: int) -> Named | None:
    """The curve that a name, a colon and an equation in coordinates are; None where the colon is that of a ratio."""
    match = _CURVE.fullmatch(text)
    if not match:
        return None
    name, equation = match[1].replace(" ", ""), _again(match[2], depth)
    if not isinstance(equation, Relation) or set(equation.signs) != {"="}:
        return None
    sides = [part.expr for part in equation.parts if isinstance(part, Quantity) and part.expr is not None]
    letters = frozenset().union(*map(names, sides))
    return Named(name, equation) if letters & _COORDINATES and name not in letters | _COORDINATES | {"z"} else None


def _left(part: str, depth: int) -> Answer:
    r"""The first part of a relation; `A \cap B`, or unknown notation such as `P(A \mid B)`, is a name."""
    if _NAMED_SET.fullmatch(part):
        return Quantity(Name(part.replace(" ", "")), part)
    try:
        return _again(part, depth)
    except Unreadable:
        if _APPLIED.fullmatch(part) and DOUBTS.isdisjoint(re.findall("[a-z]+", part.partition("(")[0])):
            return Quantity(Name(part.replace(" ", "")), part)
        raise


def _single(spans: Spans, depth: int) -> Answer:
    if spans.tokens == ["\\ldots"]:
        return Dots()
    if not spans.tokens:
        raise Unreadable("nothing")
    first, last = spans.tokens[0], spans.tokens[-1]
    if "\\begin" in spans.tokens:
        return _matrix(spans.text, depth)
    if first in ("(", "[", "\\{", "\\langle") and last in (")", "]", "\\}", "\\rangle") and spans.is_one_bracket():
        return _bracket(first, Spans(spans.inside()), last, depth)
    based = _BASED.fullmatch(_SAID_BASE.sub(r"_{\1}", spans.text))
    if based:
        return _based(based)
    return _quantity(spans.text)


def _bracket(opener: str, inner: Spans, closer: str, depth: int) -> Answer:
    """A point, an interval or a set; the content itself where parentheses hold one thing."""
    if opener == "\\{":
        for bar in ("|", ":"):
            sides, found = inner.split(frozenset([bar]))
            if found and (len(found) == 1 or _ELEMENT.fullmatch(sides[0])) and sides[0] and len(sides[0]) < 40:
                return _builder(sides[0], _again(inner.after(bar), depth))
    items, found = inner.split(frozenset([",", ";"]))
    if not all(items):
        raise Unreadable("an empty place between brackets")
    if not found and opener + closer in ("()", "[]"):
        return _again(items[0], depth)
    return Bracket(opener, tuple(_again(item, depth) for item in items), closer)


def _builder(element: str, condition: Answer) -> Answer:
    """`{x : x = 2}` is the set `{2}`; a condition of another kind stays one."""
    letter = element[0] if _ELEMENT.fullmatch(element) else ""
    if isinstance(condition, Relation) and condition.signs == ("=",) and condition.parts[0] == _letter(letter):
        return Bracket("\\{", condition.parts[1:], "\\}")
    return Builder(condition)


def _letter(letter: str) -> Quantity:
    return Quantity(Name(letter), letter)


def _matrix(text: str, depth: int) -> Answer:
    found = _MATRIX.fullmatch(text)
    if not found or text.count("\\begin") != 1:
        raise Unreadable("a matrix in something else")
    rows = [row for row in _ROW_END.split(found[2]) if row.strip()]
    cells = [[read_answer(cell.strip(), depth=depth + 1) for cell in row.split("&")] for row in rows]
    if found[1]:
        times = found[1].rstrip(" *").removesuffix("\\cdot")
        factor = _quantity("-1" if times == "-" else times)
        cells = [[_times(factor, cell) for cell in row] for row in cells]
    return Matrix(tuple(map(tuple, cells)))


_MATRIX = re.compile(
    r"([^&]*?)\s*[(\[]?\s*\\begin\s*\{(?:[bpB]?matrix|smallmatrix|array)\*?\}\s*(?:\{[clr|]*\})?(.*)"
    r"\\end\s*\{(?:[bpB]?matrix|smallmatrix|array)\*?\}\s*[)\]]?",
    re.DOTALL,
)
_ROW_END = re.compile(r"\\\\(?:\s*\[[\d.]+(?:ex|em|pt|cm|mm)\])?")


def _times(factor: Quantity, cell: Answer) -> Answer:
    if not isinstance(cell, Quantity) or cell.expr is None or factor.expr is None:
        raise Unreadable("a multiple of something other than numbers")
    return Quantity(Call("mul", (factor.expr, cell.expr)), cell.source, cell.unit)


def _based(match: re.Match[str]) -> Answer:
    digits = (match[2] or match[3]).upper()
    written = (match[4] or match[5]).lower()
    base = int(written) if written.isdecimal() else _BASE_WORDS.get(written, 0)
    if not 2 <= base <= 36:
        raise Unreadable(f"the base {written}")
    return Based(match[1] + (digits.lstrip("0") or "0"), base)


def _residue(text: str, depth: int) -> Answer | None:
    if "mod" not in text:
        return None
    match = _RESIDUE.fullmatch(text)
    if not match or not match[1].strip():
        return None
    return Residue(read_answer(match[1], depth=depth + 1), _quantity(match[2]))


def _quantity(text: str) -> Quantity:
    bare, unit = split_unit(written_out(text))
    parts = tokens(bare)
    if any(part in _FOREIGN for part in parts):
        return Quantity(None, bare, unit)
    return Quantity(read(parts), bare, unit)


def _joined_thousands(text: str) -> str:
    """Without the separators of thousands, where no bracket makes them commas of a list."""
    if not re.search(r"\d[, ]\d{3}", text):
        return text
    opened = re.search(r"[(\[]|\\\{|\\langle", text)
    if opened and "," in text[opened.start() :]:
        return text
    text = _PLAIN_THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)
    return _SPACED_THOUSANDS.sub(lambda match: match.group().replace(" ", ""), text)
