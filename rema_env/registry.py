"""From a name to an environment: a built-in one, `package.module:function`, or what an installed package offers.

A package offers its environment through the entry-point group `rema.envs`:

    [project.entry-points."rema.envs"]
    debate_v0 = "mypackage.debate:env"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pettingzoo import AECEnv

from rema_env.factory import EnvFactory
from rema_env.tasks.judge import judge_v0
from rema_env.tasks.math import math_v0
from rema_env.tasks.qa import qa_v0

GROUP = "rema.envs"
BUILT_IN: dict[str, EnvFactory] = {factory.name: factory for factory in (math_v0, judge_v0, qa_v0)}

MakeEnv = Callable[..., "AECEnv[str, Any, Any]"]


def names() -> list[str]:
    """Every environment that can be had by name here: built-in ones first, then those of installed packages."""
    return [*BUILT_IN, *sorted(set(_offered()) - set(BUILT_IN))]


def resolve(name: str) -> MakeEnv:
    """The function that makes the environment of that name.

    Args:
        name: `math_v0` (or `rema/math_v0`), `package.module:function`, or a name of the entry-point group `rema.envs`.

    Raises:
        ValueError: where the name leads nowhere, or to something that cannot be called; the message says what there is.
    """
    if not isinstance(name, str):
        raise ValueError(f"an environment is named by text, got {name!r:.60}")
    short = name.removeprefix("rema/").replace("-v", "_v")
    if short in BUILT_IN:
        return BUILT_IN[short]
    if ":" in name[1:]:
        return _callable(name, _imported(name))
    if (offered := _offered().get(name)) is not None:
        return _callable(name, _loaded(offered))
    raise ValueError(
        f"there is no environment {name!r}; there are {', '.join(names())}; one of your own is package.module:function"
    )


def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(f"environment {name!r}: there is no module {error.name!r} to import") from error
    except ImportError as error:
        raise ValueError(f"environment {name!r}: {module} cannot be imported: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"environment {name!r}: {module} has no {path!r}")
        found = getattr(found, part)
    return found


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"environment {point.name!r} is offered as {point.value}, which does not load: {error}"
        ) from error


def _callable(name: str, found: Any) -> MakeEnv:
    if callable(found):
        return found
    if callable(made := getattr(found, "env", None)):  # a module in PettingZoo's own form
        return made
    raise ValueError(f"environment {name!r} is a {type(found).__name__}, not a function that makes one")
