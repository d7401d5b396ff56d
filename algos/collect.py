"""The episodes of one step: problems drawn, groups played, branched, and, with dynamic sampling, chosen whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from algos.group_pay import both_orders, pay_groups
from algos.groups import by_group, grafted, stems, success_rate, vary
from algos.memory import mending
from algos.phases import TRIAL, in_passes, kept, said
from algos.rollout import play_on_all_ranks
from algos.schedule import rounds_at
from algos.seeds import seed_of
from algos.state import Run
from rema_agents.types import Episode, SamplingParams, Seat
from rema_env.problems.pairs import swapped
from rema_env.transcript import Problem, Transcript

SeatsFor = Callable[[int], Mapping[str, Seat]]


@dataclass(frozen=True)
class Collected:
    """What one step has to learn from.

    Attributes:
        episodes: groups one after the other, numbered from 0.
        problems: how many were drawn for it; 0 where a phase has its own.
        played: all groups, those that dynamic sampling left out too.
        dropped: how many it left out, as they teach nothing.
    """

    episodes: list[Episode]
    problems: int
    played: list[list[Episode]]
    dropped: int


def collect(run: Run, step: int) -> Collected:
    """`problems_per_step` groups of `num_generations` episodes. All ranks', on every rank.

    Dynamic sampling (DAPO, arXiv:2503.14476) leaves out groups that teach nothing and draws further problems, at most
    `max_sampling_rounds` times as many. A group is kept whole or not at all, the first ones in the order of the draw.
    """
    s = run.config.sampling
    teach: list[list[Episode]] = []
    groups: list[list[Episode]] = []
    played: list[list[Episode]] = []
    for rounds in range(1, s.max_sampling_rounds + 1):
        first = run.progress.problems + (rounds - 1) * s.problems_per_step
        groups = by_group(pay_groups(_played(run, step, rounds, first), s.group_rewards))
        played += groups
        teach += groups if not s.dynamic_sampling else [group for group in groups if teaches(run, group)]
        if len(teach) >= s.problems_per_step or not s.dynamic_sampling:
            break
    chosen = teach[: s.problems_per_step] or groups  # where no group teaches, there is still one to look at
    drawn = 0 if s.phase_problems else rounds * s.problems_per_step
    return Collected(numbered(chosen), drawn, played, len(played) - len(teach))


def teaches(run: Run, group: Sequence[Episode]) -> bool:
    """Whether dynamic sampling keeps a group: rewards that vary and a success rate within the bounds asked for."""
    low, high = run.config.sampling.bounds
    return vary(group) and low <= success_rate(group) <= high


def numbered(groups: Sequence[Sequence[Episode]]) -> list[Episode]:
    """The groups as one list, groups and dialogues numbered from 0; branches still know their stem."""
    out: list[Episode] = []
    for g, group in enumerate(groups):
        first = len(out)
        place = {episode.dialogue: first + n for n, episode in enumerate(group)}
        for episode in group:
            info = episode.info
            if "branch_of" in info:
                info = {**info, "branch_of": place[int(info["branch_of"])]}
            out.append(replace(episode, group=g, dialogue=len(out), info=info))
    return out


def _played(run: Run, step: int, rounds: int, first: int) -> list[Episode]:
    """One round of groups, with their branches."""
    s, seed = run.config.sampling, run.config.common.seed
    draws = of_phase(run, step) if s.phase_problems else list(range(first, first + s.problems_per_step))
    problems = [run.world.problems.draw(seed, index) for index in draws]
    words = (step,) if rounds == 1 else (step, rounds)
    episodes = _groups(run, step, problems, words)
    if s.num_branches == 1:
        return episodes
    where = stems(episodes, s.branch_turn, seed=(seed, *words))
    again = s.num_branches - 1
    branches = _play(run, step, [stem.transcript for stem in where], again, (step, rounds, 1))
    stem_of = [stem for stem in where for _ in range(again)]
    return grafted(episodes, branches, stem_of)


def _groups(run: Run, step: int, problems: Sequence[Problem], words: tuple[int, ...]) -> list[Episode]:
    """A group about each problem; half of it with the sides of the pair exchanged, where a term compares the two."""
    s = run.config.sampling
    if not both_orders(s.group_rewards):
        return _play(run, step, problems, s.num_generations, words)
    sides = [side for problem in problems for side in (problem, swapped(problem))]
    halves = _play(run, step, sides, s.num_generations // 2, words)
    return [replace(episode, group=episode.group // 2) for episode in halves]


def of_phase(run: Run, step: int) -> list[int]:
    """The draws of a step's problems, out of those of its phase; when a phase starts they are chosen first."""
    s, start = run.config.sampling, run.schedule.phase_start(step)
    if run.progress.phase is None or run.progress.phase["start"] != start:
        run.progress.phase = {"start": start, "draws": _chosen(run, step)}
        run.progress.problems += s.phase_problems
    first = (step - start) * s.problems_per_step
    draws = run.progress.phase["draws"]
    return in_passes(draws, first, s.problems_per_step, seed=(run.config.common.seed, start))


def _chosen(run: Run, step: int) -> list[int]:
    """The draws of those of the next `phase_problems` that the team solves sometimes; all where there are none."""
    s, seed = run.config.sampling, run.config.common.seed
    draws = range(run.progress.problems, run.progress.problems + s.phase_problems)
    learning = run.schedule.learning(step)
    problems = [run.world.problems.draw(seed, index) for index in draws]
    held = frozenset(run.world.agents) - set(learning)
    groups = by_group(_play(run, step, problems, s.phase_samples, (step, TRIAL), greedy=held))
    chosen = kept(groups, s.bounds)
    run.console.say(said(learning, groups, chosen, s.success_rate))
    if not chosen:
        run.console.warn(f"no problem has a success rate within {s.success_rate}, so the phase has all of them")
    return [draws[place] for place in chosen] or list(draws)


def _play(
    run: Run,
    step: int,
    starts: Sequence[Problem | Transcript],
    samples: int,
    words: tuple[int, ...],
    *,
    greedy: Collection[str] = (),
) -> list[Episode]:
    """`samples` dialogues from each start, a group each; the seed's further `words` tell plays of a step apart.

    Args:
        greedy: agents that take the likeliest token; the others are sampled.
    """
    limits, seed, rounds = run.config.limits, run.config.common.seed, run.config.env.max_rounds
    params = SamplingParams(limits.max_completion_length, run.config.sampling.temperature, seed=seed_of(seed, *words))
    seats = run.team.seats(params, max_prompt_length=limits.max_prompt_length)
    if greedy:
        held = run.team.seats(replace(params, temperature=0.0), max_prompt_length=limits.max_prompt_length)
        seats = partial(_mixed, seats, held, greedy)
    make_env: Any = run.world.make_env
    if isinstance(rounds, str):
        make_env = partial(make_env, max_rounds=rounds_at(rounds, step))
    lower = {"max_concurrency": limits.max_concurrency, "max_prompt_length": limits.max_prompt_length}
    with mending("playing", **lower), at_rest(run):
        return play_on_all_ranks(
            make_env,
            seats,
            starts,
            samples=samples,
            concurrency=limits.max_concurrency,
            time_limit=limits.dialogue_timeout,
            progress=run.console.playing,
        )


def _mixed(seats: SeatsFor, others: SeatsFor, agents: Collection[str], dialogue: int) -> Mapping[str, Seat]:
    """A dialogue's seats, those of `agents` from the second kind."""
    second = others(dialogue)
    return {agent: second[agent] if agent in agents else seat for agent, seat in seats(dialogue).items()}


@contextmanager
def at_rest(run: Run) -> Iterator[None]:
    """Within: the learners leave the GPU to the samplers; afterwards the samplers to whichever learner updates."""
    for policy in run.team.learning():
        assert policy.learner is not None
        policy.learner.rest()
    try:
        yield
    finally:
        run.team.sleep()
