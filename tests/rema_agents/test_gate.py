"""The gate counts dialogues at work outside samplers."""

from __future__ import annotations

import asyncio

import pytest

from rema_agents.gate import Gate


def test_a_gate_is_clear_only_when_every_dialogue_has_left() -> None:
    async def scene() -> list[str]:
        gate, seen = Gate(), []
        gate.enter()
        gate.enter()
        watcher = asyncio.create_task(gate.clear())
        for _ in range(2):
            await asyncio.sleep(0)
            seen.append("shut" if not watcher.done() else "clear")
            gate.leave()
        await watcher
        return [*seen, "clear"]

    assert asyncio.run(scene()) == ["shut", "shut", "clear"]


def test_a_dialogue_that_comes_back_before_the_watcher_looks_keeps_it_waiting() -> None:
    async def scene() -> bool:
        gate = Gate()
        gate.enter()
        watcher = asyncio.create_task(gate.clear())
        await asyncio.sleep(0)
        gate.leave()
        gate.enter()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waited = not watcher.done()
        gate.leave()
        await watcher
        return waited

    assert asyncio.run(scene())


def test_waiting_takes_a_dialogue_out_and_brings_it_back_even_after_an_error() -> None:
    gate = Gate()
    gate.enter()
    counts = []

    def fails() -> None:
        with gate.waiting():
            counts.append(gate.at_work)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert [*counts, gate.at_work] == [0, 1]


def test_nobody_leaves_who_has_not_entered() -> None:
    with pytest.raises(RuntimeError, match="had not entered"):
        Gate().leave()
