"""A YAML file of a user's or of a run, read with errors that name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_yaml(path: str | Path, flag: str = "", *, holds: str = "settings as `name: value` lines") -> dict[str, Any]:
    """What the file holds by name.

    Args:
        path: of the file.
        flag: the one that named it, if any did.
        holds: what should be in it, for the error.

    Raises:
        ValueError: it is not there, not YAML, or holds something else than names with values.
    """
    file, named = Path(path), f"{flag} {path}".lstrip()
    if not file.is_file():
        raise ValueError(f"{named}: there is no such file")
    try:
        read = yaml.safe_load(file.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{named} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(read, dict):
        raise ValueError(f"{named} must hold {holds}")
    return read
