from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rema_env
from rema_env import registry


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package that offers two environments, one of which does not load."""
    (tmp_path / "offering.py").write_text(
        "import rema_env\ndef env(**arguments): return rema_env.math_v0(**arguments)\n"
    )
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rema.envs]\noffered_v0 = offering:env\nbroken_v0 = offering:gone\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "offering", raising=False)
    return "offering"


@pytest.mark.parametrize(
    "name", ["math_v0", "rema/math_v0", "rema/math-v0", "rema_env:math_v0", "rema_env.tasks.math:env"]
)
def test_a_name_leads_to_its_environment(name: str) -> None:
    assert rema_env.resolve(name)(max_rounds=2).metadata["name"] == "math_v0"


def test_an_installed_package_offers_environments_by_entry_point(package: str) -> None:
    assert rema_env.resolve("offered_v0")(process="vrp").possible_agents == ["reasoner_0"]
    assert rema_env.resolve(f"{package}:env")().metadata["name"] == "math_v0"
    assert rema_env.resolve("offered_v0").__module__ == package
    with pytest.raises(ValueError, match="'broken_v0' is offered as offering:gone, which does not load"):
        rema_env.resolve("broken_v0")
    assert registry.names()[-2:] == ["broken_v0", "offered_v0"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "chess_v0",
            "there is no environment 'chess_v0'; there are math_v0.*; one of your own is package.module:function",
        ),
        ("nowhere:env", "there is no module 'nowhere' to import"),
        ("rema_env:chess_v0", "rema_env has no 'chess_v0'"),
        ("rema_env:__all__", "is a list, not a function that makes one"),
        ("", "there is no environment ''"),
        (":env", "there is no environment ':env'"),
        (None, "an environment is named by text, got None"),
    ],
)
def test_an_unknown_name_is_answered_with_what_there_is(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rema_env.resolve(name)


def test_a_module_in_pettingzoos_form_is_taken_for_its_env() -> None:
    assert rema_env.resolve("rema_env.tasks:math")().metadata["name"] == "math_v0"
