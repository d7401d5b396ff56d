"""What a flag's value may be, beyond its type."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import tyro


def _json_object(args: list[str]) -> dict[str, Any]:
    try:
        value = json.loads(args[0])
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, got {args[0]}")
    return value


JsonObject = Annotated[
    dict[str, Any],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=_json_object,
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]
"""A flag whose value is a JSON object."""


def at_least(name: str, value: float, least: float) -> None:
    """Raise ValueError, naming the flag, for a number below `least`, infinity or no number."""
    if not least <= value < math.inf:
        limits = f"at least {least}{' and finite' if value == math.inf else ''}"
        raise ValueError(f"--{name.replace('_', '-')} must be {limits}, got {value}")
