"""Signals: one stops a play and lets an update finish, a second ends the process."""

from __future__ import annotations

import os
import signal
import time

import pytest

from algos.interrupt import Interrupts, stoppable


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
