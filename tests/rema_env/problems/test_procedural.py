"""The procedural families: right answers, levels, draws decided by two numbers, parts that do not meet."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from rema_env.problems import Problems
from rema_env.problems.chains import chains
from rema_env.problems.pairs import arithmetic_pairs
from rema_env.problems.procedural import Procedural
from rema_env.problems.ranks import ranks

FAMILIES: dict[str, Callable[[], Procedural]] = {"chains": chains, "ranks": ranks, "arithmetic-pairs": arithmetic_pairs}
each = pytest.mark.parametrize("family", FAMILIES)


def solve_chain(question: str) -> str:
    """The value asked for, found by looking definitions up."""
    *definitions, ask = re.split(r", |\. All values modulo 10\. ", question)
    lines = dict(line.split(" = ") for line in definitions)

    def value(name: str) -> int:
        if name.isdigit():
            return int(name)
        left, *rest = lines[name].split()
        if not rest:
            return value(left)
        return {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[rest[0]](value(left), int(rest[1])) % 10

    return str(value(ask.removeprefix("What is ").removesuffix("?")))


def solve_rank(question: str) -> str:
    """The person asked for, found by trying every line-up."""
    facts = re.findall(r"(\w+) is (taller|shorter) than (\w+)\.", question)
    above = [(a, b) if word == "taller" else (b, a) for a, word, b in facts]
    people = sorted({name for pair in above for name in pair})
    (line,) = (o for o in itertools.permutations(people) if all(o.index(a) < o.index(b) for a, b in above))
    place = 1 if "second" in question else 2 if "third" in question else 0
    return line[place]


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_chains_have_the_answer_that_follows_from_their_definitions(steps: int) -> None:
    for index in range(50):
        problem = chains(steps).draw(1, index)
        assert problem.answer == solve_chain(problem.question)
        assert problem.level == steps
        assert problem.question.count(" = ") == 2 * steps + 1


@pytest.mark.parametrize("people", [3, 6])
def test_ranks_have_the_one_answer_that_the_comparisons_allow(people: int) -> None:
    for index in range(20):
        problem = ranks(people).draw(1, index)
        assert problem.answer == solve_rank(problem.question)
        assert problem.level == people


@each
def test_draws_are_decided_by_seed_and_index_in_any_process(family: str) -> None:
    code = (
        f"from rema_env.problems.{'pairs' if 'pairs' in family else family} import *\n"
        f"s = {family.replace('-', '_')}()\nprint([s.draw(3, k).id for k in (4, 0, 2)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": h},
        ).stdout
        for h in ("1", "2")
    }
    source = FAMILIES[family]()
    assert outputs == {f"{[source.draw(3, k).id for k in (4, 0, 2)]}\n"}
    assert source.draw(3, 0) != source.draw(4, 0)


@each
def test_train_and_heldout_parts_share_no_question(family: str) -> None:
    source = FAMILIES[family]()
    train, heldout = ({source.parted(part).draw(0, k).question for k in range(300)} for part in ("train", "heldout"))
    assert not train & heldout
    assert source.parted("heldout").name.endswith("-heldout")


@each
def test_a_source_is_a_picklable_endless_source(family: str) -> None:
    source = FAMILIES[family]()
    assert isinstance(source, Problems)
    assert source.size is None
    assert pickle.loads(pickle.dumps(source)) == source
    assert len({p.id for p in source.listed(50)}) == 50


def test_an_unknown_level_or_split_is_refused() -> None:
    with pytest.raises(ValueError, match="steps must be 1 to 8, got 9"):
        chains(9)
    with pytest.raises(ValueError, match="people must be 3 to 10, got 2"):
        ranks(2)
    with pytest.raises(ValueError, match="operations must be one of"):
        arithmetic_pairs(9)
    with pytest.raises(ValueError, match="split must be 'train', 'heldout' or None"):
        chains(split="test")  # type: ignore[arg-type]
