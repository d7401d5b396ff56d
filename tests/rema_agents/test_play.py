"""Many dialogues at once: none waits for another, each ends properly, each episode holds what happened."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pettingzoo import AECEnv

import rema_env
from rema_agents.gate import Gate
from rema_agents.play import play, play_episode, play_many
from rema_agents.seat import ScriptedSeat
from rema_env.dialogue import DialogueEnv
from rema_env.process import multi_turn
from rema_env.rewards import Graded
from rema_env.spaces import FreeText
from rema_env.transcript import Ending, Finish, Grade, Message, Outcome, Problem, Transcript, Turn

PROBLEMS = [Problem(f"p{i}", f"Compute {i}+1", str(i + 1)) for i in range(8)]


class Listed:
    """The problems above, in order."""

    name = "listed"
    size = len(PROBLEMS)

    def draw(self, seed: int, index: int) -> Problem:
        return PROBLEMS[index % len(PROBLEMS)]


def grade(problem: Problem, text: str) -> Grade:
    right = text == problem.answer
    return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, text)


class Watched(DialogueEnv):
    """An environment that notes what becomes of it."""

    open: ClassVar[list[Watched]] = []

    def __init__(self, grade: Any = grade) -> None:
        super().__init__(multi_turn(), Listed(), grade, max_rounds=4)
        self.open.append(self)

    def close(self) -> None:
        self.open.remove(self)


class Countdown(AECEnv):
    """An environment of another kind: two speakers in turn, four turns, a point for each word said."""

    metadata: ClassVar = {"name": "countdown_v0"}
    possible_agents: ClassVar = ["left_0", "right_0"]
    render_mode = None

    def observation_space(self, agent: str) -> Any:
        return None

    def action_space(self, agent: str) -> FreeText:
        return FreeText()

    def observe(self, agent: str) -> dict[str, Any]:
        return {"messages": ({"role": "user", "content": str(self.left)},), "turn": 4 - self.left}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents, self.left = list(self.possible_agents), 4
        for name in ("rewards", "_cumulative_rewards"):
            setattr(self, name, dict.fromkeys(self.agents, 0.0))
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action: str | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self.left -= 1
        self.rewards = dict.fromkeys(self.agents, 0.0) | {agent: float(len((action or "").split()))}
        self.terminations = dict.fromkeys(self.agents, self.left == 0)
        self.agent_selection = self.possible_agents[self.possible_agents.index(agent) - 1]
        self._accumulate_rewards()


@pytest.fixture(autouse=True)
def _every_environment_is_closed() -> Iterable[None]:
    Watched.open.clear()
    yield
    deadline = time.monotonic() + 5
    while Watched.open and time.monotonic() < deadline:
        time.sleep(0.01)  # one that was abandoned is closed by the thread it is stepped in
    assert Watched.open == []


def seats(answer: str = "right") -> dict[str, ScriptedSeat]:
    def solve(messages: Any) -> str:
        number = int(messages[0]["content"].split("Compute ")[1].split("+")[0])
        return str(number + (answer == "right"))

    return {"meta_0": ScriptedSeat(["Think.", "Now answer. [FINISH]"]), "reasoner_0": ScriptedSeat(solve)}


class Slow:
    """A seat that thinks for a while; counts who thinks at once."""

    thinking = most = 0

    def __init__(self, seconds: float, says: str = "Done. [FINISH]") -> None:
        self._seconds, self._says = seconds, says

    async def say(self, observation: Any, *, gate: Gate) -> str:
        Slow.thinking += 1
        Slow.most = max(Slow.most, Slow.thinking)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            Slow.thinking -= 1
        return self._says


def test_an_episode_holds_what_was_said_and_paid() -> None:
    episode, other = play(Watched, lambda n: seats("right" if n == 0 else "wrong"), PROBLEMS[:2], groups=[5, 5])
    texts = [(t.agent, str(t.message)) for t in episode.transcript.turns]
    assert texts == [
        ("meta_0", "Think."),
        ("reasoner_0", "1"),
        ("meta_0", "Now answer. [FINISH]"),
        ("reasoner_0", "1"),
    ]
    assert episode.ending is Ending.FINISHED
    assert episode.problem == PROBLEMS[0]
    assert (dict(episode.rewards), dict(other.rewards)) == (
        {"meta_0": 1.0, "reasoner_0": 1.0},
        {"meta_0": 0.0, "reasoner_0": 0.0},
    )
    assert episode.terms == {"meta_0": {"answer": 1.0}, "reasoner_0": {"answer": 1.0}}
    assert (episode.info["outcome"], episode.info["score"], episode.info["extracted"]) == ("right", 1.0, "1")
    assert [(e.group, e.dialogue) for e in (episode, other)] == [(5, 0), (5, 1)]


def test_episodes_come_in_the_order_of_the_problems_whichever_ends_first() -> None:
    def waits(n: int) -> dict[str, Any]:
        return {"meta_0": Slow(0.05 if n % 2 else 0.0), "reasoner_0": ScriptedSeat(["2"])}

    for concurrency in (1, 3, 100):
        played = play(Watched, waits, PROBLEMS, concurrency=concurrency)
        assert [e.problem.id for e in played] == [p.id for p in PROBLEMS]
        assert [e.dialogue for e in played] == list(range(len(PROBLEMS)))


def test_at_most_so_many_dialogues_run_at_once() -> None:
    Slow.most = 0
    play(Watched, lambda n: dict.fromkeys(("meta_0", "reasoner_0"), Slow(0.005)), PROBLEMS, concurrency=3)
    assert Slow.most == 3


def test_no_dialogue_waits_for_anothers_turn() -> None:
    def mixed(n: int) -> dict[str, Any]:
        return {a: Slow(0.3 if n == 0 else 0.0) for a in ("meta_0", "reasoner_0")}

    ended: list[str] = []

    def noting(problem: Problem, text: str) -> Grade:
        ended.append(problem.id)
        return grade(problem, text)

    play(lambda: Watched(noting), mixed, PROBLEMS)
    assert ended[-1] == "p0"


def test_a_slow_grader_does_not_hold_up_the_other_dialogues() -> None:
    def slow_on_one(problem: Problem, text: str) -> Grade:
        time.sleep(0.3)
        return grade(problem, text)

    started = time.monotonic()
    played = play(lambda: Watched(slow_on_one), lambda n: seats(), PROBLEMS)
    assert [e.rewards["meta_0"] for e in played] == [1.0] * len(PROBLEMS)
    assert time.monotonic() - started < 0.3 * len(PROBLEMS) / 2


def test_a_dialogue_over_its_time_limit_ends_as_aborted_and_the_others_go_on() -> None:
    played = play(
        Watched,
        lambda n: {**seats(), "meta_0": Slow(30.0)} if n == 1 else seats(),
        PROBLEMS[:3],
        time_limit=1.0,
    )
    assert [e.ending for e in played] == [Ending.FINISHED, Ending.ABORTED, Ending.FINISHED]
    assert played[1].transcript.turns == (Turn("meta_0", Message("", Finish.ABORTED)),)
    assert played[1].info["dropped"] is True


def test_a_time_limit_holds_in_an_environment_that_enforces_the_order_of_calls() -> None:
    problems = rema_env.math_v0().unwrapped.problems
    lines = ScriptedSeat(["Add."])
    (episode,) = play(
        lambda: rema_env.math_v0(max_rounds=3),
        lambda n: {"meta_0": lines, "reasoner_0": Slow(30.0)},
        [problems.draw(0, 0)],
        time_limit=0.2,
    )
    assert episode.ending is Ending.ABORTED
    assert [turn.message.finish for turn in episode.transcript.turns] == [Finish.STOP, Finish.ABORTED]
    assert episode.info["outcome"] is None


def test_a_time_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="time_limit must be above 0 seconds, or None, got 0"):
        play(Watched, lambda n: seats(), PROBLEMS[:1], time_limit=0)


def test_a_dialogue_whose_grader_hangs_is_aborted_and_its_lane_goes_on() -> None:
    release = threading.Event()

    def hangs_once(problem: Problem, text: str) -> Grade:
        if problem.id == "p0":
            release.wait(20)
        return grade(problem, text)

    try:
        played = play(lambda: Watched(hangs_once), lambda n: seats(), PROBLEMS[:2], concurrency=1, time_limit=1.0)
    finally:
        release.set()
    assert [e.ending for e in played] == [Ending.ABORTED, Ending.FINISHED]
    assert len(played[0].transcript.turns) == 4
    assert played[1].rewards["meta_0"] == 1.0


class Strict(Watched):
    """An environment that may not be closed while it steps, nor twice."""

    stepping = 0
    closed_at: ClassVar[list[int]] = []

    def step(self, action: str | None) -> None:
        self.stepping += 1
        super().step(action)
        self.stepping -= 1

    def close(self) -> None:
        super().close()
        self.closed_at.append(self.stepping)


def hanging(release: threading.Event, hangs: threading.Event) -> Callable[[Problem, str], Grade]:
    def graded(problem: Problem, text: str) -> Grade:
        hangs.set()
        release.wait(20)
        return grade(problem, text)

    return graded


def test_an_environment_is_closed_once_and_not_while_a_step_runs_that_was_cancelled() -> None:
    release, hangs = threading.Event(), threading.Event()
    Strict.closed_at.clear()

    async def scene() -> None:
        task = asyncio.create_task(play_many(lambda: Strict(hanging(release, hangs)), lambda n: seats(), PROBLEMS[:1]))
        await asyncio.to_thread(hangs.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert Strict.closed_at == []
        release.set()
        while not Strict.closed_at:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert Strict.closed_at == [0]


def test_an_episode_whose_grader_hangs_is_aborted_in_time_and_its_environment_stays_open() -> None:
    release, hangs = threading.Event(), threading.Event()
    env = Strict(hanging(release, hangs))
    started = time.monotonic()
    try:
        episode = asyncio.run(play_episode(env, seats(), PROBLEMS[0], time_limit=0.5))
        assert time.monotonic() - started < 10
    finally:
        release.set()
    assert episode.ending is Ending.ABORTED
    time.sleep(0.1)
    assert Strict.open == [env]
    env.close()


def test_an_error_says_nothing_of_the_event_loop_that_play_looked_for() -> None:
    with pytest.raises(ValueError, match="concurrency must be at least 1") as caught:
        play(Watched, lambda n: seats(), PROBLEMS, concurrency=0)
    assert caught.value.__context__ is None


def test_a_seat_that_says_it_was_lost_ends_its_dialogue_as_aborted() -> None:
    lost = {"meta_0": ScriptedSeat([Message("", Finish.ABORTED)]), "reasoner_0": ScriptedSeat(["1"])}
    assert play(Watched, lambda n: lost, PROBLEMS[:1])[0].ending is Ending.ABORTED


def test_an_error_of_the_environment_names_the_problem_and_is_raised_as_itself() -> None:
    def breaks(problem: Problem, text: str) -> Grade:
        if problem.id == "p3":
            raise ArithmeticError("the grader broke")
        return grade(problem, text)

    with pytest.raises(ArithmeticError, match="the grader broke") as caught:
        play(lambda: Watched(breaks), lambda n: seats(), PROBLEMS)
    assert caught.value.__notes__ == ["while playing problem 'p3', turn 4"]


@pytest.mark.parametrize("pay", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused_with_agent_and_problem(pay: float) -> None:
    class Spoilt(Watched):
        def _pay(self, graded: Graded) -> None:
            super()._pay(graded)
            if graded.transcript.problem.id == "p3":
                self.rewards["meta_0"] = pay

    with pytest.raises(ValueError, match=f"pays meta_0 {pay}, which is no finite number") as caught:
        play(Spoilt, lambda n: seats(), PROBLEMS)
    assert caught.value.__notes__ == ["while playing problem 'p3', turn 4"]


def test_an_error_of_a_seat_stops_the_others() -> None:
    class Broken:
        async def say(self, observation: Any, *, gate: Gate) -> str:
            raise LookupError("no such plan")

    started = time.monotonic()
    with pytest.raises(LookupError, match="no such plan"):
        play(
            Watched,
            lambda n: {"meta_0": Broken() if n == 2 else Slow(20.0), "reasoner_0": ScriptedSeat(["1"])},
            PROBLEMS[:4],
        )
    assert time.monotonic() - started < 10


def test_a_time_out_of_a_seats_own_is_an_error_and_not_the_time_limit() -> None:
    class TimesOut:
        async def say(self, observation: Any, *, gate: Gate) -> str:
            raise TimeoutError("the server is slow")

    with pytest.raises(TimeoutError, match="the server is slow"):
        play(Watched, lambda n: {"meta_0": TimesOut()}, PROBLEMS[:1], time_limit=60)


def test_ctrl_c_stops_all_dialogues_and_is_passed_on() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        play(Watched, lambda n: {"meta_0": Slow(20.0), "reasoner_0": ScriptedSeat(["1"])}, PROBLEMS)


def test_a_cancelled_play_leaves_nothing_behind() -> None:
    async def scene() -> None:
        task = asyncio.create_task(play_many(Watched, lambda n: {"meta_0": Slow(20.0)}, PROBLEMS))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_seat_that_says_no_text_is_named() -> None:
    with pytest.raises(TypeError, match="reasoner_0 must say a str or a Message, got NoneType: None") as caught:
        play(Watched, lambda n: {**seats(), "reasoner_0": ScriptedSeat(lambda chat: None)}, PROBLEMS[:1])  # type: ignore[arg-type,return-value]
    assert caught.value.__notes__ == ["while playing problem 'p0', turn 1"]


def test_an_agent_without_a_seat_is_named() -> None:
    with pytest.raises(ValueError, match="nobody sits for reasoner_0; there are seats for meta_0"):
        play(Watched, lambda n: {"meta_0": ScriptedSeat(["a"])}, PROBLEMS[:1])


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="8 problems need as many groups, got 1"):
        play(Watched, lambda n: seats(), PROBLEMS, groups=[0])
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        play(Watched, lambda n: seats(), PROBLEMS, concurrency=0)


def test_play_inside_a_running_loop_says_what_to_await_instead() -> None:
    async def scene() -> None:
        with pytest.raises(ValueError, match=r"await play_many\(\.\.\.\) instead"):
            play(Watched, lambda n: seats(), PROBLEMS)

    asyncio.run(scene())


def test_no_problems_make_no_episodes() -> None:
    assert play(Watched, lambda n: seats(), []) == []


def test_an_environment_of_another_kind_is_played_too() -> None:
    (episode,) = play(
        Countdown, lambda n: {"left_0": ScriptedSeat(["one two"]), "right_0": ScriptedSeat(["three"])}, PROBLEMS[:1]
    )
    assert episode.rewards == {"left_0": 4.0, "right_0": 2.0}
    assert [str(t.message) for t in episode.transcript.turns] == ["one two", "three"] * 2
    assert episode.ending is Ending.FINISHED


def test_an_environment_of_another_kind_over_its_time_limit_is_aborted_too() -> None:
    (episode,) = play(Countdown, lambda n: {"left_0": Slow(30.0)}, PROBLEMS[:1], time_limit=0.05)
    assert episode.ending is Ending.ABORTED


def test_a_transcript_is_continued_from_its_last_turn() -> None:
    begun = Transcript(PROBLEMS[0]).said("meta_0", "Think.").said("reasoner_0", "0").said("meta_0", "Again. [FINISH]")
    (episode,) = play(Watched, lambda n: seats(), [begun])
    assert episode.transcript.turns == (*begun.turns, Turn("reasoner_0", Message("1")))
    assert episode.rewards["meta_0"] == 1.0


def test_one_episode_is_played_in_an_environment_that_stays_open() -> None:
    env = Watched()
    episode = asyncio.run(play_episode(env, seats(), PROBLEMS[0]))
    assert episode.rewards["meta_0"] == 1.0
    assert Watched.open == [env]
    env.close()


def test_the_gate_is_clear_when_every_dialogue_that_is_not_over_waits_and_when_all_are_over() -> None:
    gates: list[Gate] = []
    waiting: set[object] = set()
    seen: list[tuple[int, int]] = []
    under_way = len(PROBLEMS)

    class Waits:
        async def say(self, observation: Any, *, gate: Gate) -> str:
            nonlocal under_way
            gates.append(gate)
            waiting.add(me := object())
            await gate.clear()
            seen.append((len(waiting), under_way))
            waiting.remove(me)
            under_way -= observation["turn"] == 1
            return "Done. [FINISH]"

    play(Watched, lambda n: {"meta_0": Waits(), "reasoner_0": Waits()}, PROBLEMS)
    assert len(seen) == 2 * len(PROBLEMS)
    assert all(waits == left for waits, left in seen)
    assert gates[0].at_work == 0


def test_grading_holds_up_no_call_once_the_last_dialogue_has_started() -> None:
    last_asked, one_in_grading, last_graded = (threading.Event() for _ in range(3))
    graded: list[str] = []

    def one_after_last(problem: Problem, text: str) -> Grade:
        if problem.id == "p1":
            one_in_grading.set()
            last_graded.wait(5)
        graded.append(problem.id)
        if problem.id == "p2":
            last_graded.set()
        return grade(problem, text)

    class One:
        async def say(self, observation: Any, *, gate: Gate) -> str:
            await asyncio.to_thread(last_asked.wait, 5)
            return "[FINISH]"

    class Last:
        async def say(self, observation: Any, *, gate: Gate) -> str:
            last_asked.set()
            await asyncio.to_thread(one_in_grading.wait, 5)
            await gate.clear()
            return "[FINISH]"

    planners: list[Any] = [ScriptedSeat(["[FINISH]"]), One(), Last()]
    play(lambda: Watched(one_after_last), lambda n: {**seats(), "meta_0": planners[n]}, PROBLEMS[:3], concurrency=2)
    assert graded == ["p0", "p2", "p1"]


def test_a_play_tells_how_many_dialogues_are_over() -> None:
    told: list[tuple[int, int]] = []
    play(Watched, lambda n: seats(), PROBLEMS[:3], concurrency=2, progress=lambda *over_of: told.append(over_of))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_example_of_the_page_about_play_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "play.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "page", "exec"), names)
    assert len(names["episodes"]) == 64
    assert int(capsys.readouterr().out.split(".")[0]) > 5, "the embedded model answers a part of the problems"


def test_math_v0_is_played_through_its_public_name() -> None:
    problem = Problem("p", "Compute 1+1 modulo 10.", "2")
    solver = {"meta_0": ScriptedSeat(["Add. [FINISH]"]), "reasoner_0": ScriptedSeat(["It is \\boxed{2}."])}
    (episode,) = play(rema_env.math_v0, lambda n: solver, [problem])
    assert episode.rewards == {"meta_0": 1.0, "reasoner_0": 1.0}
