"""One play, divided over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pettingzoo import AECEnv

from algos import ranks
from algos.interrupt import Stopped, stoppable
from rema_agents.play import Progress, play
from rema_agents.types import Episode, Seat
from rema_env.transcript import Problem, Transcript


def play_on_all_ranks(
    make_env: Callable[[], AECEnv],
    seats_for: Callable[[int], Mapping[str, Seat]],
    problems: Sequence[Problem | Transcript],
    *,
    samples: int,
    concurrency: int,
    time_limit: float | None,
    progress: Progress | None = None,
) -> list[Episode]:
    """`samples` dialogues about each problem, one group a problem; on every rank all of them, in the problems' order.

    A transcript in the place of a problem is played on from its last turn.

    Each rank plays a consecutive part of the problems, so a group is never divided. A dialogue's number is its place
    among all, so draws differ between ranks and are the same for any number of them. `progress` is told of this rank's.

    Raises:
        Stopped: on every rank, where a signal to one of them stopped its part.
    """
    mine = ranks.part(len(problems))
    first = mine.start * samples

    def own_part() -> list[Episode]:
        return play(
            make_env,
            lambda dialogue: seats_for(first + dialogue),
            [problems[p] for p in mine for _ in range(samples)],
            groups=[p for p in mine for _ in range(samples)],
            concurrency=concurrency,
            time_limit=time_limit,
            progress=progress,
        )

    parts = ranks.gather(stoppable(own_part))
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts):
        raise Stopped
    episodes = [episode for part in whole for episode in part]
    return [replace(episode, dialogue=number) for number, episode in enumerate(episodes)]
