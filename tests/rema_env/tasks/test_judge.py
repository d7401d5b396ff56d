from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import rema_env
from rema_env.problems.listed import Listed
from rema_env.problems.pairs import Orders, Pair, arithmetic_pairs, as_problem, in_orders, load_pairs, swapped
from rema_env.problems.streamed import Streamed
from rema_env.transcript import Problem

PAIR = Pair("p", "Which city is the capital of France?", "Paris.", "Lyon.", given="BA")


def judged(verdict: str, problem: Problem, **arguments: Any) -> float:
    """What the judge is paid for this verdict."""
    env = rema_env.judge_v0.raw_env(process="single_turn", **arguments)
    env.reset(options={"problem": problem})
    env.step("Compare the facts.")
    env.step(verdict)
    return env.rewards["reasoner_0"]


def test_the_meta_thinker_sees_the_question_alone_and_the_judge_sees_all() -> None:
    env = rema_env.judge_v0.raw_env()
    env.reset(options={"problem": as_problem(PAIR, "BA")})
    env.step("Check the facts.")
    meta, reasoner = (env.observe(agent)["messages"][1]["content"] for agent in ("meta_0", "reasoner_0"))
    assert meta == "Which city is the capital of France?"
    assert reasoner == (
        "Question:\nWhich city is the capital of France?\n\nAnswer A:\nLyon.\n\nAnswer B:\nParis.\n\n"
        "Instruction:\nCheck the facts."
    )


@pytest.mark.parametrize(
    ("verdict", "pay"),
    [
        ("B names the capital. [[B]]", 1.0),
        ("[[A]]", 0.0),
        ("[[A]] or [[B]]", 0.0),
        ("B", 0.0),
        ("", 0.0),
        ("[[B]] is what a poor judge would say of A", 0.0),
    ],
)
def test_the_right_verdict_at_the_end_is_paid(verdict: str, pay: float) -> None:
    assert judged(verdict, as_problem(PAIR, "BA")) == pay


def test_a_pair_in_both_orders_has_both_answers() -> None:
    both = in_orders([PAIR], "both")
    assert [(p.id, p.answer, p.extra["answer_a"]) for p in both] == [("p/AB", "A", "Paris."), ("p/BA", "B", "Lyon.")]
    assert [p.id for p in in_orders([PAIR], "given")] == ["p/BA"]
    assert len(in_orders([PAIR], "shuffled")) == 1
    with pytest.raises(ValueError, match="orders must be both, given or shuffled, got 'any'"):
        in_orders([PAIR], "any")  # type: ignore[arg-type]


def test_exchanging_the_sides_twice_gives_the_pair_back() -> None:
    first, second = in_orders([PAIR], "both")
    assert (swapped(first), swapped(second)) == (second, first)
    drawn = arithmetic_pairs().draw(0, 0)
    assert swapped(swapped(drawn)) == drawn
    with pytest.raises(ValueError, match="problem 'x' is no pair of answers whose sides could be exchanged"):
        swapped(Problem("x", "q", "A"))


def test_every_pair_is_judged_in_both_orders_once_an_epoch(tmp_path: Path) -> None:
    rows = [{"prompt": f"q{k}", "chosen": "good", "rejected": "bad"} for k in range(6)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = load_pairs(tmp_path / "pairs.jsonl")
    drawn = [source.draw(0, k) for k in range(source.size)]
    assert sorted(p.id for p in drawn) == sorted(f"pairs/{k}/{order}" for k in range(6) for order in ("AB", "BA"))
    assert [p.answer for p in drawn] != [p.answer for p in source]


@pytest.mark.parametrize("orders", ["both", "given", "shuffled"])
def test_streamed_pairs_are_those_that_are_read_whole(tmp_path: Path, orders: Orders) -> None:
    rows = [{"prompt": f"q{k}", "chosen": "good", "rejected": "bad"} for k in range(6)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    whole = rema_env.judge_v0(dataset=tmp_path / "pairs.jsonl", orders=orders).unwrapped.problems
    source = rema_env.judge_v0(dataset=tmp_path / "pairs.jsonl", orders=orders, streaming=True).unwrapped.problems
    assert isinstance(source, Streamed)
    assert sorted([source.draw(0, k) for k in range(len(whole))], key=lambda p: p.id) == sorted(
        whole, key=lambda p: p.id
    )


def test_what_is_wrong_with_pairs_that_are_streamed_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": "q", "answer": "1"}')
    with pytest.raises(ValueError, match="pairs need the columns prompt, chosen, rejected or question, response_A"):
        rema_env.judge_v0(dataset=tmp_path / "x.jsonl", streaming=True)
    with pytest.raises(ValueError, match="judge_v0: streaming tells how a dataset is read, and there is none"):
        rema_env.judge_v0(streaming=True)


@pytest.mark.parametrize(("label", "answer"), [("A>B", "A"), ("B>A", "B"), ("B", "B"), ("[[A]]", "A")])
def test_judgebench_labels_name_the_better_side(tmp_path: Path, label: str, answer: str) -> None:
    row = {"question": "q", "response_A": "one", "response_B": "two", "label": label}
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    (problem,) = load_pairs(tmp_path / "x.jsonl", orders="given")
    assert (problem.answer, problem.extra["answer_a"], problem.extra["answer_b"]) == (answer, "one", "two")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "response_A": "a", "response_B": "b", "label": "A=B"}, "column 'label': expected A>B"),
        ({"prompt": "q", "chosen": "", "rejected": "b"}, "row 0, column 'chosen': the text is empty"),
        ({"prompt": None, "chosen": "a", "rejected": "b"}, "row 0, column 'prompt': the cell is missing"),
        ({"question": "q", "answer": "1"}, "pairs need the columns prompt, chosen, rejected or question, response_A"),
    ],
)  # fmt: skip
def test_a_fault_in_the_pairs_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=message):
        rema_env.judge_v0(dataset=tmp_path / "bad.jsonl")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("prompt,chosen,chosen,rejected\nq,a,b,c\n")
    with pytest.raises(ValueError, match=r"x\.csv: more than one column is called 'chosen'"):
        load_pairs(tmp_path / "x.csv")


def test_procedural_pairs_put_the_right_result_on_either_side() -> None:
    problems = [arithmetic_pairs().draw(0, k) for k in range(40)]
    assert {p.answer for p in problems} == {"A", "B"}
    for problem in problems:
        better, worse = (problem.extra[f"answer_{side}"] for side in ("ab" if problem.answer == "A" else "ba"))
        assert better != worse


def accuracy(problems: Sequence[Problem], verdict: Callable[[Problem], str], process: str) -> float:
    """How often scripted agents are paid for their verdict."""
    env = rema_env.judge_v0(process=process)
    paid = 0.0
    for problem in problems:
        env.reset(options={"problem": problem})
        for agent in env.agent_iter():
            _, reward, terminated, truncated, _ = env.last(observe=False)
            paid += reward if agent == "reasoner_0" else 0.0
            say = (
                "Check both against the question. [FINISH]" if agent == "meta_0" else f"I have. [[{verdict(problem)}]]"
            )
            env.step(None if terminated or truncated else say)
    return paid / len(problems)


# Counted in the files: of JudgeBench's first 50 labels 28 are A>B; RewardBench's better answer always comes first.
@pytest.mark.parametrize("process", ["multi_turn", "single_turn", "vrp"])
@pytest.mark.parametrize(("name", "first_is_better"), [("judgebench", 28), ("rewardbench", 50)])
def test_an_always_a_judge_of_50_pairs_is_right_as_often_as_the_labels_say(
    data: Path, name: str, first_is_better: int, process: str
) -> None:
    given = load_pairs(data / f"{name}.parquet", orders="given")[:50]
    both = load_pairs(data / f"{name}.parquet")[:100]
    assert len({problem.extra["pair"] for problem in both}) == 50
    assert accuracy(given, lambda _: "A", process) == first_is_better / 50
    assert accuracy(both, lambda _: "A", process) == accuracy(both, lambda _: "B", process) == 0.5
    assert accuracy(both, lambda problem: problem.answer, process) == 1.0


def test_a_known_set_of_pairs_is_loaded_by_name_and_one_of_problems_is_refused(data: Path) -> None:
    assert rema_env.judge_v0(dataset="judgebench", orders="given").unwrapped.problems.size == 620
    with pytest.raises(ValueError, match="math500 holds problems, no pairs to be judged; rewardbench, judgebench"):
        rema_env.judge_v0(dataset="math500")


def test_the_procedural_pairs_have_a_name_and_other_families_hold_none() -> None:
    assert rema_env.judge_v0(dataset="arithmetic-pairs-3-train").unwrapped.problems.name == "arithmetic-pairs-3-train"
    with pytest.raises(ValueError, match="chains-3 holds problems, no pairs to be judged"):
        rema_env.judge_v0(dataset="chains-3")


def test_problems_that_were_read_already_keep_the_orders_they_were_read_in() -> None:
    """As a run does, which reads a data set once and tells further environments the rest of its arguments."""
    source = Listed("pairs", in_orders([PAIR], "given"))
    assert rema_env.judge_v0(source, orders="shuffled").unwrapped.problems is source


def test_a_problem_that_is_no_pair_is_refused_before_anyone_speaks() -> None:
    env = rema_env.judge_v0()
    env.reset(options={"problem": {"question": "q", "answer": "A"}})
    with pytest.raises(ValueError, match="problem 'q' is no pair: extra needs answer_a and answer_b"):
        env.last()


def test_pairs_that_share_an_id_stay_pairs_of_their_own(tmp_path: Path) -> None:
    rows = [{"id": 7, "subset": s, "prompt": s, "chosen": "good", "rejected": "bad"} for s in ("chat", "code")]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = load_pairs(tmp_path / "pairs.jsonl")
    assert [(p.id, p.extra["pair"]) for p in source] == [
        ("7/AB", "7"), ("7/BA", "7"), ("7#2/AB", "7#2"), ("7#2/BA", "7#2"),
    ]  # fmt: skip
