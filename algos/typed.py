"""A setting out of a file as its flag's own type: what a command line would refuse, a file cannot say either."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a mapping",
    NoneType: "null",
}


def typed(value: Any, hint: Any) -> Any:
    """The value as a flag of type `hint` has it; what no name is known for is taken as it is.

    A lone value stands for a list of one, and a number may be written as 1e-6, which YAML takes for text.

    Raises:
        TypeError: it is none, and what would be one.
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return typed(value, parts[0])
    if kind in (Union, UnionType):
        return _first_that_fits(value, hint, parts)
    if kind is tuple:
        return tuple(typed(item, parts[0]) for item in (value if isinstance(value, (list, tuple)) else [value]))
    if kind is Literal:
        fits = any(value == word and type(value) is type(word) for word in parts)
    elif kind is float:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                return float(value)
            except ValueError:
                pass
        fits = False
    else:
        fits = kind not in NAMES or (isinstance(value, kind) and not (kind is int and isinstance(value, bool)))
    if not fits:
        raise TypeError(f"must be {named(hint)}, got {value!r}")
    return value


def _first_that_fits(value: Any, hint: Any, parts: tuple[Any, ...]) -> Any:
    for part in parts:
        try:
            return typed(value, part)
        except TypeError:
            continue
    raise TypeError(f"must be {named(hint)}, got {value!r}")


def named(hint: Any) -> str:
    """What a value of a type is called in a message."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return named(parts[0])
    if kind in (Union, UnionType):
        return " or ".join(named(part) for part in parts)
    if kind is Literal:
        words = [str(word) for word in parts]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return NAMES.get(kind, str(kind))
