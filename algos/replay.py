"""A stored episode played again from its texts: what environment and chat formats say of it, held against what stands.

What depends on the machine is not compared: a grade for which a grader ran out of time or memory, or crashed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pettingzoo import AECEnv

from algos.batch import join_calls
from algos.metrics import GRADER_FAILED
from algos.recorded import Recorded
from rema_agents.chat import ChatCodec
from rema_agents.endings import ending_told
from rema_agents.types import Call, Episode
from rema_env.transcript import Ending, Finish, Transcript, Turn

BRANCH = {"branch_of", "branch_turn"}  # what training notes in an episode's info beside the environment's own words


@dataclass(frozen=True)
class Replayed:
    """An episode as it was played again.

    Attributes:
        episode: with the ending, pay and info that the environment tells now; no ending where it goes on.
        faults: what did not fit on the way, each in one sentence.
    """

    episode: Episode
    faults: tuple[str, ...]


def replay(episode: Episode, env: AECEnv, recorded: Recorded) -> Replayed:
    """Say all that was said, and compare each call with what the chat gives at its turn."""
    calls = {call.turn: call for call in episode.calls}
    said: dict[str, list[Call]] = defaultdict(list)
    rewards: dict[str, float] = {}
    infos: dict[str, Mapping[str, Any]] = {}
    faults: list[str] = []
    env.reset(options={"problem": episode.problem})
    for k, turn in enumerate(episode.transcript.turns):
        _take_pay(env, rewards, infos)
        if not env.agents or env.agent_selection != turn.agent:
            whose = f"{env.agent_selection}'s" if env.agents else "nobody's any more"
            return Replayed(episode, (*faults, f"turn {k} is {turn.agent}'s, but it was {whose}"))
        call = calls.pop(k, None)
        if call is not None and call.agent != turn.agent:
            faults.append(f"turn {k} is {turn.agent}'s, but its call is {call.agent}'s")
        elif call is not None:
            faults += _faults_of_call(call, turn, env.observe(turn.agent), said[turn.agent], recorded)
            said[turn.agent].append(call)
        elif turn.was_said and k >= int(episode.info.get("branch_turn", 0)):
            faults.append(f"turn {k} was said by {turn.agent}, and there is no call of it")
        env.step(turn.message)
    _take_pay(env, rewards, infos)
    if calls:
        faults.append(f"there are sampled ids for turns {sorted(calls)}, which the transcript does not have")
    for agent, own in said.items():
        if all(len(call.completion.logps) in (0, len(call.completion.token_ids)) for call in own):
            faults += _faults_of_rows(agent, own)
    return Replayed(_as_told(episode, env, rewards, infos), tuple(faults))


def _take_pay(env: AECEnv, rewards: dict[str, float], infos: dict[str, Mapping[str, Any]]) -> None:
    """Note what the agent whose turn it is was paid; those for whom it is over step on, as in `rema_agents.play`."""
    while env.agents:
        agent = env.agent_selection
        _, reward, terminated, truncated, info = env.last(observe=False)
        rewards[agent] = rewards.get(agent, 0.0) + float(reward)
        if not (terminated or truncated):
            return
        infos[agent] = {**info, "ending": ending_told(info, truncated)}
        env.step(None)


def _as_told(
    episode: Episode, env: AECEnv, rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]
) -> Episode:
    """The episode with what the environment told of it."""
    ending = None if env.agents else [Ending.FINISHED, *(info["ending"] for info in infos.values())][-1]
    if episode.transcript.ending is Ending.ABORTED and not episode.info.keys() - BRANCH:
        # out of time while the environment took its last step: nobody was told of an end, or paid for it
        paid = {agent: rewards.get(agent, 0.0) if env.agents else 0.0 for agent in episode.rewards}
        return replace(episode, rewards=paid, terms={})
    return replace(
        episode,
        transcript=Transcript(episode.problem, episode.transcript.turns, ending),
        rewards=dict(rewards),
        terms={agent: dict(info.get("terms", {})) for agent, info in infos.items()},
        info=next(iter(infos.values()), {}),
    )


def was_graded_for_good(stored: Episode, told: Episode) -> bool:
    """Whether neither grade speaks of the machine it was made on."""
    return not {stored.info.get("outcome"), told.info.get("outcome")} & set(map(str, GRADER_FAILED))


def faults_of_pay(stored: Episode, told: Episode) -> Iterator[str]:
    """Where ending, grade or pay is not what the environment tells, with the group's pay in both."""
    if (ending := told.transcript.ending) != stored.transcript.ending:
        yield f"it is stored as {stored.transcript.ending}, but {f'it is {ending}' if ending else 'it was not over'}"
        return
    if not was_graded_for_good(stored, told):
        return
    for name in ("outcome", "score", "extracted"):
        if not _same(stored.info.get(name), told.info.get(name)):
            yield f"its {name} is stored as {stored.info.get(name)!r:.60}, but it is {told.info.get(name)!r:.60}"
    for agent in dict.fromkeys((*stored.rewards, *told.rewards)):
        if not _same(stored.rewards.get(agent), told.rewards.get(agent)):
            yield f"{agent} is stored as paid {stored.rewards.get(agent)}, but is paid {told.rewards.get(agent)}"


def _same(one: Any, other: Any) -> bool:
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return math.isclose(one, other, abs_tol=1e-9) if numbers else bool(one == other)


def _faults_of_call(
    call: Call, turn: Turn, observation: Mapping[str, Any], said: Sequence[Call], recorded: Recorded
) -> Iterator[str]:
    codec, where = recorded.codec_of[call.agent], f"turn {call.turn} ({call.agent})"
    expected = codec.prompt_ids(observation["messages"], said)
    if call.prompt_ids != expected:
        place = next((i for i, (a, b) in enumerate(zip(call.prompt_ids, expected, strict=False)) if a != b), None)
        at = f"id {place}" if place is not None else f"length {len(call.prompt_ids)} instead of {len(expected)}"
        yield f"{where}: the stored prompt is not what the chat gives, from {at} on{_of_a_clock(codec)}"
    message = turn.message
    spoken = codec.message(call.completion, share_thinking=recorded.config.model.share_thinking)
    if spoken != message:
        yield f"{where}: the sampled ids say {str(spoken)!r:.80}, the transcript {str(message)!r:.80}"
    ids, logps = call.completion.token_ids, call.completion.logps
    if len(logps) != len(ids) and (logps or recorded.gives_logps(call.agent)):
        yield f"{where}: {len(ids)} sampled ids but {len(logps)} log-probabilities"
    if not all(map(math.isfinite, logps)):
        yield f"{where}: a log-probability is no finite number"
    stopped = bool(ids) and ids[-1] in codec.stop_token_ids
    if call.completion.finish is Finish.LENGTH and stopped:
        yield f"{where}: it counts as cut, but its last id is a stop token"


def _faults_of_rows(agent: str, calls: Sequence[Call]) -> Iterator[str]:
    spoken = [call.completion.token_ids for call in calls if call.completion.token_ids]
    sampled = [(k, i) for k, ids in enumerate(spoken) for i in ids]
    rows = join_calls(calls)
    trained = [(int(k), int(i)) for row in rows for k, i in zip(row.turn, row.ids, strict=True) if k >= 0]
    if trained != sampled:
        yield f"{agent}: the rows would train other tokens than those sampled"


def _of_a_clock(codec: ChatCodec) -> str:
    """The likely cause where a template writes the time, which is another now."""
    if "strftime_now" not in str(codec.tokenizer.chat_template):
        return ""
    return "; the chat template writes the date or time (strftime_now), which was another then"
