"""docs/algorithms.md says what the code does."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from algos import grpo, reinforce_pp, turn_ppo
from algos.command_line import flatten
from algos.credit import CREDITS
from algos.functional import SHARES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "algorithms.md").read_text()
MODULES = {"grpo": grpo, "reinforce_pp": reinforce_pp, "turn_ppo": turn_ppo}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize(("name", "ratio", "share", "low", "high", "beta", "kl_in"), rows("Defaults"))
def test_the_table_of_defaults_is_the_codes(
    name: str, ratio: str, share: str, low: str, high: str, beta: str, kl_in: str
) -> None:
    settings = getattr(MODULES[name].Config(), name)
    if hasattr(settings, "ratio"):
        settings = dataclasses.replace(settings, ratio=ratio)
    assert (settings.share, settings.beta, settings.kl_in) == (share, float(beta), kl_in)
    assert settings.clip(ratio) == (float(low), float(high))
    assert (settings.dual_clip, settings.entropy_coef, settings.log_ratio_limit) == (None, 0.0, 20.0)


def test_every_share_and_every_credit_is_in_its_table() -> None:
    assert [row[0] for row in rows("Ratio, clip, share")] == list(SHARES)
    assert {row[0].split("`")[0] for row in rows("Credit")} == {*CREDITS, "critic"}


def test_every_flag_on_the_page_is_one() -> None:
    known = {"--output-dir", "--loss-type"}
    for name, module in MODULES.items():
        known |= {f"--{flag.replace('_', '-')}" for flag in flatten(module.Config())}
        assert hasattr(module.Config(), name)
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - known == set()


def test_every_file_on_the_page_is_there() -> None:
    assert [path for path in re.findall(r"\]\(\.\./([^)]+)\)", PAGE) if not (ROOT / path).exists()] == []
