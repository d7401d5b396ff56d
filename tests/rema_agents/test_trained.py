"""What a model was trained with is read from its run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rema_agents.tiny import SYSTEM_PROMPTS
from rema_agents.trained import trained_with

OWN = {"meta": "Think.", "reasoner": "Work."}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose settings are all its own."""
    run = tmp_path / "run"
    (run / "final" / "policy").mkdir(parents=True)
    (run / "config.yaml").write_text(
        "env: judge_v0\nenv_kwargs: {}\nmodel_name_or_path: embedded\nprocess: single_turn\nmax_rounds: 1:0,4:100\n"
        "on_cut: continue\nmax_completion_length: 64\nchat_template_kwargs: {enable_thinking: false}\n"
        "share_thinking: true\n"
    )
    (run / "final" / "policy" / "system_prompts.yaml").write_text("meta: Think.\nreasoner: Work.\n")
    (run / "system_prompts.yaml").write_text("meta: Think.\nreasoner: Work.\n")
    return run


@pytest.mark.parametrize("part", ["", "final", "final/policy"])
def test_a_run_tells_of_each_of_its_parts(run: Path, part: str) -> None:
    found = trained_with(str(run / part))
    rules = {"process": "single_turn", "max_rounds": 4, "on_cut": "continue", "system_prompts": OWN}
    assert (found.env, found.arguments) == ("judge_v0", rules)
    assert (found.max_tokens, found.chat_template_kwargs, found.share_thinking) == (
        64,
        {"enable_thinking": False},
        True,
    )


def test_weights_that_left_their_run_keep_their_prompts(run: Path, tmp_path: Path) -> None:
    final = (run / "final").rename(tmp_path / "final")
    for name in (final, final / "policy"):
        assert trained_with(str(name)).arguments == {"system_prompts": OWN}


def test_another_process_has_prompts_of_its_own(run: Path) -> None:
    arguments = trained_with(str(run), process="multi_turn", max_rounds=7).arguments
    assert arguments == {"process": "multi_turn", "max_rounds": 7, "on_cut": "continue"}


def test_a_flag_holds_before_the_further_arguments_of_the_run_and_those_before_its_settings(run: Path) -> None:
    (run / "config.yaml").write_text(
        "model_name_or_path: embedded\nprocess: mrp\nmax_rounds: 3\ngrader: exact\n"
        "env_kwargs: {process: single_turn, max_rounds: 5}\n"
    )
    own = {"process": "single_turn", "max_rounds": 5, "grader": "exact", "system_prompts": OWN}
    assert trained_with(str(run)).arguments == own
    assert trained_with(str(run), process="single_turn", max_rounds=0).arguments == own | {"max_rounds": 0}
    assert trained_with(str(run), process="vrp").arguments == {"process": "vrp", "max_rounds": 5, "grader": "exact"}


def test_the_embedded_model_has_short_prompts_in_every_process() -> None:
    for process, prompts in SYSTEM_PROMPTS.items():
        found = trained_with("embedded", process=process)
        assert found.arguments["system_prompts"] == prompts
        assert (found.arguments["max_rounds"], found.max_tokens) == (4, 48)


def test_of_a_hub_name_and_of_nothing_nothing_is_known(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    for name in (None, "owner/model"):
        found = trained_with(name)
        assert (found.env, found.arguments, found.max_tokens) == ("math_v0", {}, 512)


def test_a_configuration_of_something_else_is_none_of_a_run(run: Path) -> None:
    (run / "config.yaml").write_text("- not\n- ours\n")
    assert trained_with(str(run)).arguments == {"system_prompts": OWN}


def test_a_file_that_cannot_be_read_is_named(run: Path) -> None:
    (run / "config.yaml").write_text("model_name_or_path: [")
    with pytest.raises(ValueError, match=r"config\.yaml is not YAML: while parsing"):
        trained_with(str(run))
