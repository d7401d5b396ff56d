"""Episodes as JSON Lines: what is written is read again, and what is no episode is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rema_agents.episodes import read_episodes, write_episodes
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript

SUM = Problem("sum", "3+4?", "7", extra={"subject": "sums"})
SAID = Transcript(SUM).said("meta_0", "Add.\u2028Now.").said("reasoner_0", Message("7", "length", "easy"))
EPISODE = Episode(
    SUM,
    SAID.ended(Ending.MESSAGE_LIMIT),
    (Call("meta_0", 0, (1, 2), Completion((3, 4), (-0.5, -1e-9), Finish.STOP, 7)),),
    {"meta_0": 0.0, "reasoner_0": 0.5},
    {"meta_0": {"answer": 0.0}},
    {"outcome": None, "score": None},
    group=3,
    dialogue=5,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    other = replace(EPISODE, calls=(), dialogue=6)
    write_episodes(tmp_path / "new" / "step.jsonl", [EPISODE, other])
    assert list(read_episodes(tmp_path / "new" / "step.jsonl")) == [EPISODE, other]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["step.jsonl"]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def breaks_off() -> Iterator[Episode]:
        yield EPISODE
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        write_episodes(tmp_path / "step.jsonl", breaks_off())
    assert not (tmp_path / "step.jsonl").exists()


def test_whatever_an_environment_tells_is_written(tmp_path: Path) -> None:
    info = {"score": np.float32(0.5), "board": np.arange(3), "player": Path("here"), "name": "\ud800"}
    write_episodes(tmp_path / "step.jsonl", [replace(EPISODE, info=info)])
    (read,) = read_episodes(tmp_path / "step.jsonl")
    assert read.info == {"score": 0.5, "board": [0, 1, 2], "player": "here", "name": "?"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps({"schema": 99}), "line 1 is not an episode: an episode of schema 99; this version reads schema 1"),
        (json.dumps({"schema": 1}), "line 1 is not an episode: 'transcript'"),
        ("{", "line 1 is not an episode: Expecting"),
        ("5", "line 1 is not an episode"),
    ],
)
def test_a_line_that_is_no_episode_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "x.jsonl").write_text(line)
    with pytest.raises(ValueError, match=f"x.jsonl, {message}"):
        list(read_episodes(tmp_path / "x.jsonl"))
