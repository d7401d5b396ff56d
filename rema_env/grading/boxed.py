"""The answer in a message: what stands in its last complete \\boxed{}, found by counting braces in one pass."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*(\{)?|\\.|[{}]", re.DOTALL)
_NUMBER = re.compile(r"\s*(-?(?:\d+(?:[.,]\d+)*|\\[dt]?frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)))")
_SPACE = r"(?:[\s$~]|\\[()\[\] ,;:!]|\\q?quad\b)*"
_BLANK = re.compile(_SPACE)
_JOINT = re.compile(
    rf"{_SPACE}(?:[,;]|,?{_SPACE}(?:\\(?:text|mathrm|textrm)\s*\{{[\s~]*)?\b(?:and|or)\b[\s~]*\}}?){_SPACE}"
)


def find_answer(text: str) -> str | None:
    r"""The content of the last complete, non-empty \boxed{} or \fbox{} outside a think block, or None.

    Boxes joined by a comma, a semicolon, "and" or "or" alone are one answer and come back joined by commas. A nested
    box is part of the outer one. `\boxed 41` without braces counts where a number follows. Linear in the text.
    """
    text = _outside_thinking(text)
    start = min((at for at in (text.find("\\boxed"), text.find("\\fbox")) if at >= 0), default=-1)
    if start < 0:
        return None
    boxes = _boxes(text, start)
    while boxes and _BLANK.fullmatch(text, boxes[-1][1], boxes[-1][2]):
        boxes.pop()
    if not boxes:
        return None
    return ", ".join(dict.fromkeys(_last_run(text, boxes)))


def _outside_thinking(text: str) -> str:
    """What follows the last closed think block, up to one that was never closed."""
    text = text[text.rfind("</think>") + len("</think>") :] if "</think>" in text else text
    opened = text.find("<think>")
    return text if opened < 0 else text[:opened]


def _boxes(text: str, start: int) -> list[tuple[int, int, int, int]]:
    """(start, content start, content end, end) of each outermost complete box, in order."""
    boxes: list[tuple[int, int, int, int]] = []
    open_braces: list[tuple[int, int]] = []  # (start of the box command or -1, start of the content)
    for token in _TOKEN.finditer(text, start):
        word = token.group()
        if word == "}":
            if open_braces:
                box, content = open_braces.pop()
                if box >= 0:
                    while boxes and boxes[-1][0] > box:
                        boxes.pop()
                    boxes.append((box, content, token.start(), token.end()))
        elif word == "{" or token.group(1):
            open_braces.append((-1 if word == "{" else token.start(), token.end()))
        elif word.startswith(("\\boxed", "\\fbox")):
            number = _NUMBER.match(text, token.end())
            if number:
                boxes.append((token.start(), number.start(1), number.end(1), number.end(1)))
    return boxes


def _last_run(text: str, boxes: list[tuple[int, int, int, int]]) -> list[str]:
    """Contents of the last box and of those joined to it, in order."""
    run = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if not _JOINT.fullmatch(text, box[3], run[-1][0]):
            break
        run.append(box)
    return [text[content:end].strip() for _, content, end, _ in reversed(run)]
