"""Many dialogues at once, each a coroutine that reads like PettingZoo's own loop.

Works for any AEC environment whose observations are `{"messages": ..., "turn": int}` and whose actions are text. No
dialogue waits for another's turn; a step that may wait for a grader runs in a thread; whatever happens, every
environment is closed.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from pettingzoo import AECEnv

from rema_agents.endings import ending_told, ends_with
from rema_agents.gate import Gate
from rema_agents.types import Episode, Seat
from rema_env.dialogue import DialogueEnv
from rema_env.limits import as_message
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, Turn

EnvFn = Callable[[], AECEnv]
SeatsFor = Callable[[int], Mapping[str, Seat]]
Progress = Callable[[int, int], None]

DEFAULT_CONCURRENCY = 256
_STEP_THREADS = 32


def play(
    env_fn: EnvFn,
    seats_for: SeatsFor,
    problems: Sequence[Problem | Transcript],
    *,
    groups: Sequence[int] | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Episode]:
    """Play one dialogue about each problem and return the episodes in the order of the problems.

    Args:
        env_fn: makes an environment; each is used for many dialogues, one after the other, and closed in the end.
        seats_for: dialogue number -> the seat of each agent, new for every dialogue where seats keep calls.
        problems: one for each dialogue; a group of G episodes is its problem G times. A transcript is continued from
            its last turn.
        groups: the group of each dialogue; by default its number.
        concurrency: dialogues at once.
        time_limit: [seconds] for each dialogue; one that takes longer ends as `aborted`.
        progress: told how many dialogues are over, and of how many: at the start and after each.

    Raises:
        ValueError: for arguments that do not fit together, or when called from a running event loop (await
            `play_many` there).
        Exception: the first error of an environment or seat, with a note that names the problem. All other
            dialogues are stopped and their environments closed before it is raised; so too on KeyboardInterrupt.
    """
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ValueError("play() starts an event loop of its own and one is running here: await play_many(...) instead")
    played = asyncio.run(
        _unless_interrupted(
            play_many(
                env_fn,
                seats_for,
                problems,
                groups=groups,
                concurrency=concurrency,
                time_limit=time_limit,
                progress=progress,
            )
        )
    )
    if played is None:
        raise KeyboardInterrupt
    return played


async def _unless_interrupted(playing: Coroutine[Any, Any, list[Episode]]) -> list[Episode] | None:
    """The episodes; None after a KeyboardInterrupt: of a task that ends with one asyncio prints the traceback."""
    try:
        return await playing
    except KeyboardInterrupt:
        return None


async def play_many(
    env_fn: EnvFn,
    seats_for: SeatsFor,
    problems: Sequence[Problem | Transcript],
    *,
    groups: Sequence[int] | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Episode]:
    """`play` as a coroutine."""
    groups = range(len(problems)) if groups is None else groups
    if len(groups) != len(problems):
        raise ValueError(f"{len(problems)} problems need as many groups, got {len(groups)}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")
    lanes = min(concurrency, len(problems))
    threads = ThreadPoolExecutor(_STEP_THREADS, thread_name_prefix="env-step")
    todo = deque(range(lanes, len(problems)))
    table = _Table(Gate(), threads, todo)
    episodes: dict[int, Episode] = {}
    tell = progress or (lambda over, of: None)
    tell(0, len(problems))

    async def lane(number: int | None) -> None:
        """Plays dialogues one after the other, in an environment of its own, until none is left."""
        env = None
        try:
            while number is not None:
                env = env or env_fn()
                dialogue = _Dialogue(env, seats_for(number), problems[number], table)
                try:
                    episode = await dialogue.play(time_limit)
                finally:
                    if dialogue.running is not None:
                        dialogue.running.add_done_callback(_closes(env))
                        env = None
                episodes[number] = replace(episode, group=groups[number], dialogue=number)
                tell(len(episodes), len(problems))
                number = todo.popleft() if todo else None
        finally:
            table.gate.leave()
            if env is not None:
                env.close()

    for _ in range(lanes):
        table.gate.enter()
    try:
        await _all(lane(number) for number in range(lanes))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return [episodes[number] for number in range(len(problems))]


async def play_episode(
    env: AECEnv, seats: Mapping[str, Seat], problem: Problem | Transcript, *, time_limit: float | None = None
) -> Episode:
    """One dialogue from first plan to pay; yields to others whenever a seat thinks.

    The environment stays open. A step that is still running at the time limit goes on in its thread.
    """
    gate = Gate()
    gate.enter()
    thread = ThreadPoolExecutor(1, thread_name_prefix="env-step")
    try:
        return await _Dialogue(env, seats, problem, _Table(gate, thread, todo=())).play(time_limit)
    finally:
        thread.shutdown(wait=False)


async def _all(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines together; the first error stops the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


@dataclass(frozen=True)
class _Table:
    """What the dialogues of one play share: the gate, the threads, and the numbers of those still to start."""

    gate: Gate
    threads: Executor
    todo: Collection[int]


class _Dialogue:
    """One dialogue under way: the environment, who sits at it, and what happened so far.

    Attributes:
        running: a step that nobody waits for any more and that still runs in its thread; the environment is its own.
    """

    def __init__(self, env: AECEnv, seats: Mapping[str, Seat], start: Problem | Transcript, table: _Table) -> None:
        self.running: Future[None] | None = None
        self._env = env
        self._seats = seats
        self._start = start if isinstance(start, Transcript) else Transcript(start)
        self._table = table
        self._turns = list(self._start.turns)
        self._rewards: dict[str, float] = {}
        self._infos: dict[str, Mapping[str, Any]] = {}
        self._ending = Ending.FINISHED
        self._lost = False

    async def play(self, time_limit: float | None) -> Episode:
        """Play to the end; at the time limit the one whose turn it is counts as lost."""
        if time_limit is not None and time_limit <= 0:
            raise ValueError(f"time_limit must be above 0 seconds, or None, got {time_limit}")
        try:
            try:
                async with asyncio.timeout(time_limit) as limit:
                    key = "transcript" if self._start.turns else "problem"
                    self._env.reset(options={key: self._start if self._start.turns else self._start.problem})
                    await self._talk()
            except TimeoutError:
                if not limit.expired():
                    raise
                await self._abort()
        except Exception as error:
            if not getattr(error, "__notes__", None):  # a failed engine raises one error in many dialogues
                error.add_note(f"while playing problem {self._start.problem.id!r}, turn {len(self._turns)}")
            raise
        return self._episode()

    async def _talk(self) -> None:
        env = self._env
        while env.agents:  # as agent_iter(), which cannot go on where a lost speaker left off
            agent = env.agent_selection
            _, reward, terminated, truncated, info = env.last(observe=False)
            self._rewards[agent] = self._rewards.get(agent, 0.0) + _finite(agent, reward)
            if terminated or truncated:
                self._infos[agent] = info
                self._ending = ending_told(info, truncated)
                env.step(None)
            else:
                message = as_message(agent, await self._said_by(agent))
                self._turns.append(Turn(agent, message))
                await self._step(agent, message)

    async def _said_by(self, agent: str) -> Message | str:
        if self._lost:
            return Message("", Finish.ABORTED)
        if agent not in self._seats:
            raise ValueError(f"nobody sits for {agent}; there are seats for {', '.join(self._seats) or 'no one'}")
        observation = self._env.observe(agent)
        with self._table.gate.waiting():
            return await self._seats[agent].say(observation, gate=self._table.gate)

    async def _step(self, agent: str, message: Message) -> None:
        """Step the environment: at once where it only takes note, in a thread where it may wait for a grader."""
        ends = ends_with(self._env, agent, message)
        if ends is False:
            self._env.step(message)
            return
        leads_to_no_call = ends is True and not self._table.todo
        with self._table.gate.waiting() if leads_to_no_call else nullcontext():
            stepping = self._table.threads.submit(self._env.step, message)
            try:
                await asyncio.wrap_future(stepping)
            except asyncio.CancelledError:
                self.running = None if stepping.done() else stepping
                raise

    async def _abort(self) -> None:
        """Tell the environment that the speaker is lost, and let it end by its own rules."""
        if self.running is None and isinstance(self._env.unwrapped, DialogueEnv):
            self._lost = True
            await self._talk()
        self._ending = Ending.ABORTED

    def _transcript(self) -> Transcript:
        """The environment's own transcript where it keeps one that has ended, else what was said here."""
        kept = getattr(self._env.unwrapped, "transcript", None) if self.running is None else None
        if isinstance(kept, Transcript) and kept.ending is not None:
            return kept
        return Transcript(self._start.problem, tuple(self._turns), self._ending)

    def _episode(self) -> Episode:
        info = next(iter(self._infos.values()), {})
        seats = {id(seat): seat for seat in self._seats.values()}.values()
        calls = (call for seat in seats for call in getattr(seat, "calls", ()))
        return Episode(
            problem=self._start.problem,
            transcript=self._transcript(),
            calls=tuple(sorted(calls, key=lambda call: call.turn)),
            rewards=dict(self._rewards),
            terms={agent: dict(told.get("terms", {})) for agent, told in self._infos.items()},
            info={key: value for key, value in info.items() if key not in ("ending", "terms")},
        )


def _closes(env: AECEnv) -> Callable[[Future[None]], None]:
    return lambda _: env.close()


def _finite(agent: str, reward: float) -> float:
    """A reward as it is: one that is no number would spread to all that it is compared with."""
    if not math.isfinite(reward):
        raise ValueError(f"the environment pays {agent} {reward}, which is no finite number")
    return float(reward)
