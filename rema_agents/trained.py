"""What a model was trained with, as far as it matters to whoever talks with it: read from the run that it lies in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rema_agents.models import EMBEDDED, run_of
from rema_agents.tiny import SYSTEM_PROMPTS
from rema_agents.yaml_file import read_yaml

PROMPTS = "system_prompts.yaml"
"""The system prompts, role -> text, in a run's folder and beside the weights that were taught with them."""

_USUAL: dict[str, Any] = {"process": "multi_turn", "max_rounds": 30, "on_cut": "end", "grader": None}
_EMBEDDED: dict[str, Any] = {"system_prompts": EMBEDDED, "max_rounds": 4, "max_completion_length": 48}


@dataclass(frozen=True)
class Trained:
    """What is known of it; the rest is as usual.

    Attributes:
        env: the environment's name.
        arguments: what the environment is told.
        max_tokens: the limit of tokens a message.
        chat_template_kwargs: passed to the chat template.
        share_thinking: whether partners see reasoning blocks.
    """

    env: str
    arguments: Mapping[str, Any]
    max_tokens: int
    chat_template_kwargs: Mapping[str, Any]
    share_thinking: bool


def trained_with(name: str | None, *, process: str | None = None, max_rounds: int | None = None) -> Trained:
    """Read it.

    Args:
        name: a run, a checkpoint, a model folder, a hub name or `embedded`; None: nothing is known.
        process, max_rounds: instead of the run's.

    Raises:
        ValueError: a file of the run cannot be read.
    """
    run = run_of(name) if name else None
    told = _EMBEDDED if name == EMBEDDED else read_yaml(run / "config.yaml") if run else {}
    settings = {name: told.get(name, usual) for name, usual in _USUAL.items()}
    settings["max_rounds"] = _last(settings["max_rounds"])
    own = {name: value for name, value in settings.items() if value != _USUAL[name]} | (told.get("env_kwargs") or {})
    flags = {"process": process, "max_rounds": max_rounds}
    arguments = own | {name: value for name, value in flags.items() if value is not None}
    taught, wanted = (some.get("process", _USUAL["process"]) for some in (own, arguments))
    prompts: Mapping[str, str] | None = _kept(name, run) if wanted == taught else None
    if prompts is None and told.get("system_prompts") == EMBEDDED:
        prompts = SYSTEM_PROMPTS.get(wanted)
    return Trained(
        told.get("env", "math_v0"),
        arguments if prompts is None else {"system_prompts": prompts, **arguments},
        told.get("max_completion_length", 512),
        told.get("chat_template_kwargs") or {},
        bool(told.get("share_thinking")),
    )


def _kept(name: str | None, run: Path | None) -> dict[str, str] | None:
    """The system prompts beside the weights, else those of the run."""
    path = Path(name or "")
    places = (path, *path.glob("*/"), *([run] if run else ())) if name else ()
    file = next((place / PROMPTS for place in places if (place / PROMPTS).is_file()), None)
    return None if file is None else read_yaml(file)


def _last(max_rounds: int | str) -> int:
    """The limit of rounds that a schedule such as 1:0,4:100 ends with."""
    return int(str(max_rounds).rpartition(",")[2].partition(":")[0])
