"""Who learns in which step, and under which limit of rounds."""

from __future__ import annotations

import pytest

from algos.schedule import Schedule, last_rounds, rounds_at

AGENTS = ("meta_0", "reasoner_0")


def test_all_learn_in_every_step_unless_told_otherwise() -> None:
    assert [Schedule.parse("all", AGENTS).learning(step) for step in (1, 50)] == [AGENTS] * 2
    assert Schedule.parse("reasoner", AGENTS).learning(7) == ("reasoner_0",)
    assert Schedule.parse("reasoner, meta", AGENTS).agents == ("reasoner_0", "meta_0")


def test_alternating_gives_each_role_as_many_steps_from_step_1_on() -> None:
    schedule = Schedule.parse("alternate:3", AGENTS)
    who = [schedule.learning(step)[0] for step in range(1, 10)]
    assert who == ["meta_0"] * 3 + ["reasoner_0"] * 3 + ["meta_0"] * 3
    assert [schedule.phase_start(step) for step in range(1, 10)] == [1] * 3 + [4] * 3 + [7] * 3


def test_the_first_role_can_be_chosen_and_phases_can_differ_in_length() -> None:
    schedule = Schedule.parse("alternate:1,2", AGENTS, first="reasoner")
    assert [schedule.learning(step)[0] for step in range(1, 5)] == ["reasoner_0", "meta_0", "meta_0", "reasoner_0"]


@pytest.mark.parametrize(
    ("train", "first", "said"),
    [
        ("critic", None, "--train critic: there is no role 'critic'; there are: meta, reasoner"),
        ("alternate:0", None, "after alternate: comes a number of steps"),
        ("alternate:1,2,3", None, "or 2 of them"),
        ("alternate:", None, "after alternate: comes"),
        ("alternate", None, "--train alternate needs its number of steps"),
        ("all", "reasoner", "--first reasoner says who begins an alternation"),
        ("alternate:5", "judge", "--first judge: there is no role 'judge'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(train: str, first: str | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Schedule.parse(train, AGENTS, first=first)


def test_rounds_rise_after_the_steps_that_the_schedule_names() -> None:
    assert [rounds_at("1:0,4:100,30:200", step) for step in (1, 100, 101, 200, 201, 999)] == [1, 1, 4, 4, 30, 30]
    assert rounds_at(4, 1) == rounds_at("4:0", 77) == 4
    assert (last_rounds("1:0,4:100"), last_rounds(9)) == (4, 9)


@pytest.mark.parametrize("text", ["", "four", "1:5,4:10", "1:0,4", "4:0,1:0", "0:0", "2:0,4:9,3:5"])
def test_a_schedule_of_rounds_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ROUNDS:STEP pairs with rising steps"):
        rounds_at(text, 1)
