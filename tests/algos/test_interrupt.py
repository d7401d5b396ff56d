"""Signals: one stops a play and lets an update finish, a second ends the process."""

from __future__ import annotations

import gc
import os
import signal
import time

import pytest

from algos.command_line import exit_on_mistakes
from algos.interrupt import Interrupts, stoppable
from rema_agents.play import play
from rema_agents.seat import ScriptedSeat
from rema_agents.types import Seat
from rema_env import math_v0
from rema_env.problems.arithmetic import arithmetic


def test_a_signal_outside_play_is_noted_and_a_second_ends_the_process_with_its_code() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.agreed()
        assert stoppable(lambda: "played") is None
        with pytest.raises(SystemExit) as exit_:
            os.kill(os.getpid(), signal.SIGINT)
    assert exit_.value.code == 130


def test_a_signal_stops_a_play_at_once() -> None:
    def play() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    start = time.monotonic()
    with Interrupts() as interrupts:
        assert stoppable(play) is None
    assert interrupts.exit_code == 143
    assert time.monotonic() - start < 30


def test_a_signal_in_the_middle_of_dialogues_stops_them_without_a_word_from_asyncio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def struck(messages: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "Add."

    def seats(dialogue: int) -> dict[str, Seat]:
        return dict.fromkeys(("meta_0", "reasoner_0"), ScriptedSeat(struck))

    problems = [arithmetic().draw(0, n) for n in range(8)]
    with Interrupts() as interrupts:
        assert stoppable(lambda: play(math_v0, seats, problems)) is None
    gc.collect()
    assert (interrupts.exit_code, caplog.messages) == (130, [])


def test_ctrl_c_while_a_command_gets_ready_is_one_line_and_130(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_, exit_on_mistakes("rema"):
        raise KeyboardInterrupt
    assert (exit_.value.code, capsys.readouterr().err) == (130, "rema: interrupted\n")
