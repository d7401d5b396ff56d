"""Is an agent lazy? How much the answer's probability changes when a role's messages are removed.

    influence(role) = mean over episodes of | P(answer | dialogue) - P(answer | dialogue, the role's messages empty) |

P is the probability, under the weights of the agent that answers, of its last message exactly as it was sampled. 0: the
role could as well have said nothing. 1: the answer hangs on what it said. Both dialogues are rendered anew by the
environment, so that they differ by the removed words alone.

Source: the question is that of arXiv:2511.02303 (lazy agents in meta-thinking), where influence is measured in logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pettingzoo import AECEnv

from algos.batch import make_batch
from algos.functional import segment_sum
from algos.scoring import Reference
from rema_agents.chat import ChatCodec
from rema_agents.types import Call, Episode
from rema_env.transcript import Ending, Message, Transcript, role_of


def influence(
    env: AECEnv, episodes: Sequence[Episode], role: str, *, codec: ChatCodec, reference: Reference
) -> float | None:
    """The figure above for one role; None where no episode came to a sampled answer after a message of the role.

    Args:
        env: the environment in which the episodes were played.
        codec, reference: chat format and frozen weights of the agent that answers.
    """
    answered = [e for e in episodes if e.ending is Ending.FINISHED and e.calls and _last(e).turn > 0]
    told = [e for e in answered if any(role_of(turn.agent) == role for turn in e.transcript.turns[: _last(e).turn])]
    if not told:
        return None
    whole = [_asked(env, codec, e, None) for e in told]
    without = [_asked(env, codec, e, role) for e in told]
    batch = make_batch([*whole, *without], sorted({_last(e).agent for e in told}))
    logp_S = segment_sum(reference.logp(batch), batch.trajectory_B[:, None].expand_as(batch.turn_BT), 2 * len(told))
    p_S = logp_S.exp()
    return float((p_S[: len(told)] - p_S[len(told) :]).abs().mean())


def _last(episode: Episode) -> Call:
    return episode.calls[-1]


def _asked(env: AECEnv, codec: ChatCodec, episode: Episode, removed: str | None) -> Episode:
    """The episode with its last call alone, asked for anew; the messages of role `removed` are empty."""
    call = _last(episode)
    turns = tuple(
        replace(turn, message=Message("")) if role_of(turn.agent) == removed else turn
        for turn in episode.transcript.turns[: call.turn]
    )
    env.reset(options={"transcript": Transcript(episode.problem, turns)})
    prompt_ids = codec.prompt_ids(env.observe(call.agent)["messages"], [])
    return replace(episode, calls=(replace(call, turn=0, prompt_ids=prompt_ids),), info={})
