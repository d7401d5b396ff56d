"""Episodes as JSON Lines: everything that was said, in text and in tokens, and what it was paid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Finish, Transcript

SCHEMA = 1
"""Written into every line; a reader refuses a number it does not know."""


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """Plain JSON values; `episode_from_json` restores an equal episode."""
    return {
        "schema": SCHEMA,
        "dialogue": episode.dialogue,
        "group": episode.group,
        "transcript": episode.transcript.to_json(),
        "rewards": dict(episode.rewards),
        "terms": {agent: dict(terms) for agent, terms in episode.terms.items()},
        "info": dict(episode.info),
        "calls": [
            {
                "agent": call.agent,
                "turn": call.turn,
                "prompt_ids": list(call.prompt_ids),
                "token_ids": list(call.completion.token_ids),
                "logps": list(call.completion.logps),
                "finish": str(call.completion.finish),
                "weight_version": call.completion.weight_version,
            }
            for call in episode.calls
        ],
    }


def episode_from_json(data: Mapping[str, Any]) -> Episode:
    """The episode that `episode_to_json` wrote. Raises ValueError for another schema."""
    if data.get("schema") != SCHEMA:
        raise ValueError(f"an episode of schema {data.get('schema')!r}; this version reads schema {SCHEMA}")
    transcript = Transcript.from_json(data["transcript"])
    calls = tuple(
        Call(
            c["agent"],
            c["turn"],
            tuple(c["prompt_ids"]),
            Completion(tuple(c["token_ids"]), tuple(c["logps"]), Finish(c["finish"]), c["weight_version"]),
        )
        for c in data["calls"]
    )
    return Episode(
        problem=transcript.problem,
        transcript=transcript,
        calls=calls,
        rewards=data["rewards"],
        terms=data["terms"],
        info=data["info"],
        group=data["group"],
        dialogue=data["dialogue"],
    )


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write one line for each episode. The file appears whole or not at all.

    What an environment's info holds that JSON has no form for is written as text, numpy's numbers and arrays as such.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".tmp")
    with aside.open("w", encoding="utf-8", errors="replace") as file:
        for episode in episodes:
            file.write(json.dumps(episode_to_json(episode), ensure_ascii=False, default=_as_json) + "\n")
    aside.replace(path)


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def read_episodes(path: Path) -> Iterator[Episode]:
    """The episodes of a file. Raises ValueError, naming file and line, for a line that is none."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield episode_from_json(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number} is not an episode: {error}") from error
