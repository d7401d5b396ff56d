"""LaTeX as people and models write it, made plain: one spelling for each sign, no layout, then tokens.

Nothing here knows mathematics; every step is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata


class Unreadable(ValueError):
    """The text is not an answer that the grammar knows."""


_SIGNS = {
    **dict.fromkeys("−–—‐‑‒﹣－", "-"),
    **dict.fromkeys("×✕✖", r"\times "),
    **dict.fromkeys("·∙⋅•", r"\cdot "),
    **dict.fromkeys("°º˚", r"^\circ "),
    **dict.fromkeys("′’", "'"),
    **dict.fromkeys("∣│", "|"),
    **dict.fromkeys("、，", ","),
    **dict.fromkeys("。．", "."),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0e\ufe0f", ""),  # zero width
    **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", ""),  # direction
    **dict.fromkeys("✅✓✔☑■□∎", ""),
    **dict.fromkeys("⁄∕", "/"), "∶": ":", "∴": r"\therefore ",
    "÷": r"\div ", "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ",
    "≦": r"\le ", "≧": r"\ge ", "¢": r"\text{ cents}",
    "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "∅": r"\emptyset ", "∖": r"\setminus ", "∠": r"\angle ", "△": r"\triangle ", "→": r"\to ", "⇒": r"\Rightarrow ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "∑": r"\sum ", "∏": r"\prod ", "∫": r"\int ", "…": r"\ldots ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "⟨": r"\langle ", "⟩": r"\rangle ",
    "√": r"\sqrt ", "∛": r"\sqrt[3]", "∧": r"\text{ and }", "∨": r"\text{ or }", "ⅈ": "i", "ℯ": "e",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "µ": r"\mu ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ",
    "φ": r"\phi ", "ϕ": r"\phi ", "ψ": r"\psi ", "ω": r"\omega ", "Δ": r"\Delta ", "Ω": r"\Omega ", "Σ": r"\Sigma ",
}  # fmt: skip
_SIGN_TABLE = str.maketrans(_SIGNS)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ", "0123456789+-()n")
_RAISED_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+")
_LOWERED_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₙ]+")
_ROOT_OF_NUMBER = re.compile(r"√\s*(\d+(?:\.\d+)?)")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

_THOUSANDS_MARK = re.compile(r"(?<=\d)(?:\{,\}|\{\\,\}|\\,|,\s*\\!\s*|\\!,\s*)(?=\d{3}(?!\d))")
_DOUBLE_ESCAPE = re.compile(r"\\\\(?=[a-zA-Z{}$%])")
_LAYOUT = re.compile(
    r"\\(?:left|right|middle)(?![a-zA-Z])\s*\.?|\\[bB]igg?[lrm]?(?![a-zA-Z])|\\!|(?<!\\)\$|(?<!\\)\\[()\[\]]"
    r"|\\(?:[vh]?phantom|color|tag|label|vspace)\*?\s*\{[^{}]*\}|\\(?:textcolor|colorbox)\s*\{[^{}]*\}|\\[vh]?phantom\s*-?"
    r"|\\(?:begin|end)\s*\{(?:aligned|align|gathered|gather|equation|split|cases|center)\*?\}"
    r"|\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|mathstrut|strut|nonumber|boldmath|checkmark|square"
    r"|blacksquare|qed|tiny|small|normalsize|large|Large|LARGE|huge|Huge|bfseries|itshape|rm|bf|it|tt)(?![a-zA-Z])"
    r"|\\(?:boxed|fbox|underline|boldsymbol|bm|mathord|ensuremath|mathstrut)(?=\s*\{)"
)
_TABLE = re.compile(r"matrix|array|cases")
_CONTINUED = re.compile(r"\\\\\s*&?\s*=")
_SYSTEM = re.compile(r"\\\{\s*\\begin\s*\{array\}\s*\{[^{}]*\}(.{0,999}?)\\end\s*\{array\}", re.DOTALL)
_SWITCH = re.compile(r"\{\s*\\(?:rm|bf|it|tt|sf)\s+([^{}\\]*)\}")
_ALIGNED_AT = re.compile(r"(?<!\\)&")
_SPACE = re.compile(
    r"(?<!\\)\\[,;: >\n]|~|\\(?:quad|qquad|enspace|thinspace|medspace)(?![a-zA-Z])|\\[hv]space\*?\{[^{}]*\}"
)
_SQUARE_METRES = re.compile(r"(?<=[\d}i])(?:\\[,;: ]|~)+\s*m(?=\s*\^\s*\{?\s*[23]\s*\}?[\s.]*$)")
_STYLE = re.compile(r"\s*\\(?:math(?:bf|rm|it|sf)|boldmath)\s*(?=\{)")
_FORMULA = re.compile(r"[\\^_=+*/\d]")
_ALIAS = {
    r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\cfrac": r"\frac", r"\dbinom": r"\binom", r"\tbinom": r"\binom",
    r"\leq": r"\le", r"\leqslant": r"\le", r"\leqq": r"\le", r"\geq": r"\ge", r"\geqslant": r"\ge", r"\geqq": r"\ge",
    r"\lt": "<", r"\gt": ">", r"\neq": r"\ne", r"\lbrace": r"\{", r"\rbrace": r"\}", r"\lbrack": "[",
    r"\rbrack": "]", r"\lparen": "(", r"\rparen": ")", r"\lvert": "|", r"\rvert": "|", r"\vert": "|", r"\mid": "|",
    r"\varnothing": r"\emptyset", r"\dots": r"\ldots", r"\cdots": r"\ldots", r"\dotsc": r"\ldots",
    r"\rightarrow": r"\to", r"\longrightarrow": r"\to", r"\implies": r"\Rightarrow", r"\ast": "*", r"\colon": ":",
    r"\textbf": r"\text", r"\textit": r"\text", r"\textrm": r"\text", r"\textnormal": r"\text", r"\textsf": r"\text",
    r"\texttt": r"\text", r"\mbox": r"\text", r"\hbox": r"\text", r"\mathrm": r"\text", r"\mathbf": r"\text",
    r"\mathit": r"\text", r"\mathsf": r"\text", r"\mathtt": r"\text", r"\operatorname": r"\text", r"\emph": r"\text",
    r"\bigcup": r"\cup", r"\bigcap": r"\cap", r"\nicefrac": r"\frac", r"\sfrac": r"\frac", r"\&": r"\text{ and }",
    r"\textdollar": r"\$", r"\mathdollar": r"\$", r"\Longrightarrow": r"\Rightarrow", r"\backslash": r"\setminus",
    r"\degree": r"^\circ", r"\textdegree": r"^\circ", r"\arcsec": r"\asec", r"\infin": r"\infty", r"\R": r"\mathbb{R}",
    r"\imath": "i", r"\varphi": r"\phi", r"\varepsilon": r"\epsilon", r"\percent": r"\%", r"\dollar": r"\$",
    r"\land": r"\text{ and }", r"\lor": r"\text{ or }", r"\wedge": r"\text{ and }", r"\vee": r"\text{ or }",
    r"\overrightarrow": r"\vec",
}  # fmt: skip
_COMMAND = re.compile(r"\\(?:[a-zA-Z]+|&)")
_TEXT_WITHOUT_WORDS = re.compile(r"\\text(?![a-zA-Z])\s*(?:\{((?:[^{}a-zA-Z\\]|\\[a-zA-Z]+|\\[$%#&_ ])*)\}|(?![\s{]))")
_BRACED_SIGN = re.compile(r"(?<![\\^_}\]a-zA-Z])\{([-+=<>:.])\}")
_CHOICES = re.compile(r"(?:\{\s*\}|(?<![\w)}\]]))[\^_]\s*\{?(\d+|[a-z])\}?\s*\{?C\}?_\s*\{?(\d+|[a-z])\}?")
_TIMES_TEN = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)")
_DOTTED = re.compile(r"\.(\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?")
_BRACED_DEGREE = re.compile(r"\^\s*\{\s*(?:\\circ|o)\s*\}|\^\s*o(?![a-zA-Z])")
_EMPTY_GROUP = re.compile(r"[\^_]\{ *\}|(?<![\\}a-zA-Z^_])\{ *\}(?! *[\^_])")
_BRACED_FRACTION = re.compile(r"(?<=\d)\s*\{\s*(\\frac\s*(?:\d\s*\d|\{\s*\d+\s*\}\s*\{\s*\d+\s*\}))\s*\}")
_UNIT_FRACTION = re.compile(
    r"(?<=[\d}])\s*\\frac\s*\{\s*\\text\s*\{([^{}]*)\}\s*\}"
    r"\s*\{\s*\\text\s*\{([^{}]*)\}(\^\d)?\s*\}"
)
_UNIT_PRODUCT = re.compile(r"(?<=[\d}] )\\text\s*\{([a-zA-Z ]+)\}\s*\\cdot\s*\\text\s*\{([a-zA-Z ]+)\}")
_BLANKS = re.compile(r"\s+")
_SPELLINGS = (
    (re.compile(r"\\text\s*\{([^{}]*)\\text\s*\{([^{}]*)\}([^{}]*)\}"), r"\\text{\1\2\3}"),
    (re.compile(r"\\text\s*\{\s*\{([^{}]*)\}\s*\}"), r"\\text{\1}"),
    (re.compile(r"\\text\s*(?=\{\s*-?\s*\\(?!text))"), ""),
    (_BRACED_DEGREE, r"^\\circ "),
    (_EMPTY_GROUP, ""),
    (_BRACED_FRACTION, r"\1"),
    (_UNIT_FRACTION, r" \\text{\1/\2\3}"),
    (_UNIT_PRODUCT, r"\\text{\1 \2}"),
    (_BRACED_SIGN, r"\1"),
    (_CHOICES, r"\\binom{\1}{\2}"),
    (_TIMES_TEN, r"\\times "),
    (_DOTTED, r".\1\\overline{\2\3\4}"),
    (re.compile(r":\s*="), "="),
    (
        re.compile(
            r"(?<=\d)\s*(?:\^\s*\{\s*(?:st|nd|rd|th|\\text\s*\{\s*(?:st|nd|rd|th)\s*\})\s*\}|\^?\s*\\text\s*\{\s*(?:st|nd|rd|th)\s*\})"
        ),
        "",
    ),
)


def clean(answer: str) -> str:
    """One spelling for each sign, no layout. Raises Unreadable on control characters and lone surrogates."""
    if _CONTROL.search(answer):
        raise Unreadable("control characters")
    if not answer.isascii():
        answer = _ascii(answer)
    answer = _THOUSANDS_MARK.sub("", _upright(answer))
    if "\\begin" not in answer:
        answer = _DOUBLE_ESCAPE.sub(r"\\", answer)
        answer = _THOUSANDS_MARK.sub("", answer)
    answer = _SWITCH.sub(r"\\text{\1}", _SYSTEM.sub(r" \1", answer))
    if not _TABLE.search(answer):
        answer = _ALIGNED_AT.sub("", _CONTINUED.sub("=", answer))
    answer = _LAYOUT.sub("", answer)
    answer = _BLANKS.sub(" ", _SPACE.sub(" ", _SQUARE_METRES.sub(r" \\text{m}", answer)))
    answer = _COMMAND.sub(lambda match: _ALIAS.get(match.group(), match.group()), answer)
    answer = _TEXT_WITHOUT_WORDS.sub(lambda match: f" {match[1] or ''} ", answer)
    for pattern, plain in _SPELLINGS:
        answer = pattern.sub(plain, answer)
    return trim(_BLANKS.sub(" ", answer))


def _upright(text: str) -> str:
    r"""A formula that is bold or upright as a whole, `\mathbf{x^2+1}`, without that; words keep their wrapper."""
    style = _STYLE.match(text)
    body = text[style.end() :].rstrip() if style else text
    bare = _unwrap(body, "{", "}") if style else text
    return bare if bare != body and _FORMULA.search(bare) else text


def trim(text: str) -> str:
    """Without outer blanks, closing punctuation and brackets that hold the whole."""
    while True:
        bare = _QUOTED.sub(r"\2\3", text.strip()).rstrip(".,;: \n\\")
        bare = _unwrap(bare, "{", "}") if bare.startswith("{") else bare
        bare = _unwrap(bare, "(", ")") if bare.startswith("((") else bare
        bare = bare.strip()
        if bare == text:
            return text
        text = bare


_QUOTED = re.compile(r"^(?:(\*\*|[*`'\"])([^*`'\"]+)\1|`{1,2}([^`']+)'{1,2})$")


def _unwrap(text: str, opener: str, closer: str) -> str:
    """Without the pairs of brackets that hold all of it; linear, however deep. Parentheses keep one pair."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACKET.finditer(text):
        if match.group() == opener:
            opened.append(match.start())
        elif match.group() == closer:
            if not opened:
                return text
            partner[opened.pop()] = match.start()
    first, last = 0, len(text) - 1
    while partner.get(first) == last:
        first, last = first + 1, last - 1
    kept = first > 0 and opener == "("
    return text[first - kept : last + 1 + kept]


_BRACKET = re.compile(r"\\.|[{}()]", re.DOTALL)


def _ascii(text: str) -> str:
    text = _RAISED_RUN.sub(lambda run: "^{" + run.group().translate(_RAISED) + "}", text)
    text = _LOWERED_RUN.sub(lambda run: "_{" + run.group().translate(_LOWERED) + "}", text)
    text = _VULGAR.sub(_fraction, text)
    text = _ROOT_OF_NUMBER.sub(r"\\sqrt{\1}", text).translate(_SIGN_TABLE)
    return unicodedata.normalize("NFKC", text).translate(_SIGN_TABLE)


def _fraction(sign: re.Match[str]) -> str:
    over, _, under = unicodedata.normalize("NFKC", sign.group()).partition("\u2044")
    return rf"\frac{{{over}}}{{{under}}}"


_TOKEN = re.compile(
    r"\\text\s*\{[^{}]*\}|\\[a-zA-Z]+|\\.|\d+\.(?=\\)|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+(?![\d.a-zA-Z]))?"
    r"|[a-zA-Z]+|\s+|\*\*|[<>]=|.",
    re.DOTALL,
)
WORDS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp sqrt pi theta alpha beta gamma infty"
    " gcd lcm max min cup frac binom".split()
)
_SPOKEN = {"infinity": r"\infty", "inf": r"\infty", "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan"}
_SPELLED = {"**": "^", "<=": r"\le", ">=": r"\ge"}


def tokens(text: str) -> list[str]:
    r"""Commands, numbers, single letters, signs and whole `\text{...}` groups; blanks gone, known words as commands."""
    return [token for token, _, _ in lexemes(text)]


def lexemes(text: str) -> list[tuple[str, int, int]]:
    """The same, each token with where it starts and ends in the text."""
    out: list[tuple[str, int, int]] = []
    for match in _TOKEN.finditer(text):
        token, start, end = match.group(), match.start(), match.end()
        if token[0].isalpha() and token not in WORDS and token not in ("and", "or") and token.lower() not in _SPOKEN:
            out.extend((letter, at, at + 1) for at, letter in enumerate(token, start))
        elif not token.isspace():
            out.extend((word, start, end) for word in [_word(token)] if word)
    return out


def _word(token: str) -> str:
    """The one spelling of a token; words of mathematics as commands, also out of `\\text{}`."""
    group = token.startswith(r"\text") and token.endswith("}")
    word = token[token.index("{") + 1 : -1].strip(" ,;") if group else token
    if word in WORDS:
        return "\\" + word
    if word.lower() in _SPOKEN:
        return _SPOKEN[word.lower()]
    if group and word and word not in ("and", "or"):
        return f"\\text{{{word}}}"
    return _SPELLED.get(word, word)
