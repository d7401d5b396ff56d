"""How a dialogue ends, in any environment: whether a message ends it, and the ending that its last infos tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import AECEnv

from rema_env.dialogue import DialogueEnv
from rema_env.limits import ending_of
from rema_env.transcript import Ending, Message


def ends_with(env: AECEnv, agent: str, message: Message) -> bool | None:
    """Whether a message ends the dialogue, so that its step may wait for a grader; None where only `env` knows."""
    game = env.unwrapped
    if not isinstance(game, DialogueEnv):
        return None
    return ending_of(game.process, game.transcript.said(agent, message), game.limits) is not None


def ending_told(info: Mapping[str, Any], truncated: bool) -> Ending:
    """The ending that an agent's last info names; by default what PettingZoo's two flags can tell."""
    return Ending(info.get("ending", Ending.ROUND_LIMIT if truncated else Ending.FINISHED))
