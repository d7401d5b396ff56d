"""Units and other words around a number: what may be dropped, what must agree, and what makes an answer a hedge."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction

from rema_env.grading.words import as_number

_BASE: dict[str, tuple[str, Fraction]] = {}


def _define(dimension: str, factor: str | int, names: str) -> None:
    for name in names.split():
        _BASE[name] = (dimension, Fraction(factor))


_define("length", "1/1000", "mm millimeter millimetre")
_define("length", "1/100", "cm centimeter centimetre")
_define("length", 1, "m meter metre")
_define("length", 1000, "km kilometer kilometre")
_define("length", "0.0254", "in inch inche")
_define("length", "0.3048", "ft foot feet")
_define("length", "0.9144", "yd yard")
_define("length", "1609.344", "mi mile")
_define("mass", "1/1000", "mg milligram")
_define("mass", 1, "g gm gram")
_define("mass", 1000, "kg kilogram")
_define("mass", "453.59237", "lb pound")
_define("time", 1, "s sec second")
_define("time", 60, "min minute")
_define("time", 3600, "h hr hour")
_define("time", 86400, "day")
_define("time", 604800, "week")
_define("money", 1, "dollar usd $")
_define("money", "1/100", "cent")
_define("euro", 1, "euro €")
_define("british money", 1, "£")
_define("yen or yuan", 1, "¥ yen yuan")
_define("rupee", 1, "₹ rupee")
_define("angle", 1, "degree deg")
_define("angle in radians", 1, "radian rad")
_define("percent", 1, "percent percentage pct %")
_define("volume", 1, "l liter litre")
_define("volume", "1/1000", "ml milliliter millilitre")

# Bare words that are units though they are short enough to be products of variables.
_BARE = frozenset("mm cm km in ft yd mi kg gm lb sec min hr mph kmph usd pct am pm units unit deg days day".split())
_HEDGES = frozenset(
    "or and maybe not perhaps possibly probably either if unless but else otherwise wrong incorrect except between no"
    " none never than least most over under above below plus minus times squared cubed hundred thousand million billion"
    " dozen half more less fewer to neither nor where when for all any about almost nearly roughly approximately approx"
    " around etc versus vs xor alternatively instead".split()
)
_SPEEDS = {"mph": "mi/h", "kmph": "km/h", "kph": "km/h"}
_PER = re.compile(r"\s*/\s*|\s+per\s+")
_VERDICTS = frozenset("false rejected guess".split())  # hedges at the end alone: 45 false positives are 45
_POWER = r"\^\s*(?:-?\d|\{\s*-?\d\s*\})"
_PLAIN = re.compile(rf"[A-Za-z°](?:[A-Za-z.°/ ()*\-]|\\cdot|{_POWER})*(?:\d)?")
_TEXT_UNIT = re.compile(rf"\\text\s*\{{((?:[^{{}}^]|{_POWER})*)\}}\s*(?:\^\s*\{{?\s*(-?\d)\s*\}}?)?$")
_BARE_UNIT = re.compile(r"(?<=[\d)}\s])([A-Za-z][A-Za-z.]*(?: [A-Za-z][A-Za-z.]*){0,3})\s*(?:\^\s*\{?\s*(\d)\s*\}?)?$")
_DEGREES = re.compile(r"\^\s*\\circ\s*(?:\\text\s*\{\s*)?[CF]\s*\}?$")
_OF_AN_ANGLE = re.compile(r"\\?(?:sin|cos|tan|cot|sec|csc)")
_WORD = re.compile("[a-z]+(?:-[a-z]+)*")
_SYMBOLS = frozenset("A C F H Hz J K L N Pa T V W Wb mol ohm eV".split())  # upright; as bare letters they are variables
_MONEY = r"(\\\$|[$£€¥₹]|\\pounds|\\euro|USD|US\\\$|Rs\b\.?|\\text\s*\{\s*(?:USD|Rs)\b\.?\s*\})"
_CURRENCY = re.compile(rf"^(-?)\s*{_MONEY}\s*")
_CURRENCY_BEHIND = re.compile(rf"(?<=[\d}}])\s*{_MONEY}$")
_CURRENCY_NAMES = {"£": "£", "\\pounds": "£", "€": "€", "\\euro": "€", "¥": "¥", "₹": "₹", "Rs": "₹"}
_OHM = re.compile(r"(?<=[\d}]) (?:\\text\s*\{\s*[kM]\s*\}\s*)?\\Omega$")
_RAISED = re.compile(r"\b([a-zA-Z]+) (squared|cubed)(?=\s*\}?$)")
_MICRO = re.compile(r"(?<=[\d}]) \\mu$")
_MAGNITUDES = {"dozen": 12, "hundred": 100} | {
    word: 10**power for word, power in (("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12))
}
_MAGNITUDE = re.compile(
    r"(?<=[\d}])\s*(?:\\text\s*\{\s*(NAMES)\b\s*(?:([a-z][a-z ]*)\}|\})|(NAMES)\b)".replace(
        "NAMES", "|".join(_MAGNITUDES)
    )
)
_PERCENT = re.compile(r"\s*(?:\\%|%|\\text\s*\{\s*(?:\\?%|per ?cent)\s*\})$")


@dataclass(frozen=True)
class Unit:
    """A unit of known dimension, or (`dimension` empty) any other word, which changes nothing."""

    dimension: str = ""
    power: int = 1
    factor: Fraction = Fraction(1)


def rate(over: Unit, under: Unit) -> Unit | None:
    r"""A speed, an acceleration, a density or a flow; None for other units, for `\$5` may be dollars per hour."""
    over, under = _in_lengths(over), _in_lengths(under)
    if (over.dimension, under.dimension) not in (("length", "time"), ("mass", "length")):
        return None
    powers = f"{over.dimension}^{over.power}/{under.dimension}^{under.power}"
    return Unit(powers, 1, over.factor / under.factor)


def _in_lengths(unit: Unit) -> Unit:
    """A litre is a thousandth of a cubic metre."""
    litres = unit.dimension == "volume"
    return Unit("length", 3 * unit.power, unit.factor / Fraction(1000) ** unit.power) if litres else unit


def split_unit(text: str) -> tuple[str, Unit | None]:
    """(what is left, its unit or None) of one quantity: currency in front, unit, percent sign or label behind."""
    money = _CURRENCY.match(text)
    if money:
        return money[1] + split_unit(text[money.end() :])[0], _currency(money[2])
    money = _CURRENCY_BEHIND.search(text)
    if money:
        return text[: money.start()], _currency(money[1])
    text = _RAISED.sub(_as_raised, _OHM.sub(r" \\text{ohm}", text))
    percent = _PERCENT.search(text)
    if percent and percent.start() > 0:
        return text[: percent.start()].rstrip(), _named("percent", 1)
    text = _DEGREES.sub(r"^\\circ", text)
    if text.endswith(r"^\circ") and not _OF_AN_ANGLE.search(text):
        return text.removesuffix(r"^\circ").rstrip(), _named("degree", 1)
    found: list[tuple[str, int]] = []
    while len(found) < 6:
        match = _TEXT_UNIT.search(text) or _BARE_UNIT.search(text)
        if not match or not text[: match.start()].strip() or not _is_unit(match, text):
            break
        found.append((match[1], int(match[2] or 1)))
        text = _MICRO.sub("", text[: match.start()].rstrip(" /"))
    if not found:
        return text, None
    words = " ".join(word for word, _ in reversed(found))
    return text, _named(words, found[0][1])


def _as_raised(words: re.Match[str]) -> str:
    """`square cm` for `cm squared`; other words stay: 5 squared is no unit of 5."""
    power = "square" if words[2] == "squared" else "cubic"
    return f"{power} {words[1]}" if unit_of(words[1], 1) else words[0]


def unit_of(word: str, power: int) -> Unit | None:
    """The unit of that name, `m`, `km`, `hr`, None where there is none; a name of one letter is lower case, or L."""
    known = word in _BASE or word == "L" or (len(word) > 1 and _singular(word) in _BASE)
    return _named(word, power) if known else None


def written_out(text: str) -> str:
    r"""With the magnitude behind a number multiplied out: `2.5 \text{ million dollars}` is 2.5 * 1000000 dollars."""

    def factor(match: re.Match[str]) -> str:
        rest = rf"\text{{ {match[2]}}}" if match[2] else ""
        return rf" \cdot {_MAGNITUDES[match[1] or match[3]]} {rest}"

    return _MAGNITUDE.sub(factor, text)


def is_hedge(words: str, value: str) -> bool:
    """Whether the words behind a value say more than a unit or a label could: another value, a doubt, a bound."""
    if not _PLAIN.fullmatch(words.strip()):
        return True
    found = [word for word in _WORD.findall(words.lower()) if as_number(word) != value]
    parts = "-".join(found).split("-")
    return parts[-1] in _VERDICTS or _counts(parts) or not _HEDGES.isdisjoint(parts)


def _counts(words: list[str]) -> bool:
    """Whether they hold a number: `two` alone or last, `seventy four cats`; `two digit numbers` is a label."""
    numbers = [as_number(word) is not None for word in words]
    return numbers[-1] or any(number and after for number, after in itertools.pairwise(numbers))


def _is_unit(match: re.Match[str], text: str) -> bool:
    words = _unbracketed(match[1])
    if not words:
        return True
    symbol = match.re is _TEXT_UNIT and words in _SYMBOLS and re.search(r"[\d}]\s*$", text[: match.start()])
    if is_hedge(words, text[: match.start()].strip()) or (len(words) == 1 and words not in _BASE and not symbol):
        return False
    if match.re is _TEXT_UNIT:
        before = text[: match.start()].rstrip()
        return len(words.split()) <= 5 and not before.endswith(("=", "_", "^", "+", "-", "*", "<", ">", ",", "("))
    spaced = text[match.start() - 1] == " "
    return all(word.strip(".").lower() in _BARE or _known(word) or (spaced and len(word) > 3) for word in words.split())


def _currency(sign: str) -> Unit:
    return _named(next((name for shown, name in _CURRENCY_NAMES.items() if shown in sign), "$"), 1)


def _unbracketed(words: str) -> str:
    """`(square units)` without its parentheses."""
    words = words.strip()
    return words[1:-1].strip() if words.startswith("(") and words.endswith(")") else words


def _known(word: str) -> bool:
    return len(word) > 2 and _singular(word) in _BASE


def _singular(word: str) -> str:
    word = word.lower().strip(". ")
    return word if word in _BASE else word.removesuffix("s")


def _named(words: str, power: int) -> Unit:
    """The unit of such words, e.g. `square inches`, `km/h`; a plain label where the table does not know it."""
    raised = re.fullmatch(r"([^\^]+?)\s*\^\s*\{?\s*(\d)\s*\}?", words)
    if raised:
        words, power = raised[1], int(raised[2])
    over, *under = _PER.split(_SPEEDS.get(words.strip().lower(), words))
    if under:
        same = under[1:] in ([], under[:1])  # m/s/s
        return (rate(_named(over, 1), _named(under[0], power * len(under))) if same else None) or Unit()
    parts = words.replace(".", " ").lower().split()
    for word, power_of in (("square", 2), ("sq", 2), ("cubic", 3), ("cu", 3)):
        if len(parts) == 2 and parts[0] == word:
            parts, power = parts[1:], power_of
    base = _BASE.get(_singular(parts[0])) if len(parts) == 1 else None
    return Unit(base[0], power, base[1] ** power) if base else Unit()
