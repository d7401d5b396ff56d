"""Where a model is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rema_agents.models import model_folder, run_of


def model(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return path


def test_a_folder_a_checkpoint_and_a_run_lead_to_their_weights(tmp_path: Path) -> None:
    plain = model(tmp_path / "plain")
    shared, meta = model(tmp_path / "run" / "checkpoint-3" / "policy"), model(tmp_path / "two" / "final" / "meta")
    (tmp_path / "run" / "latest").write_text("checkpoint-3")
    assert model_folder(str(plain)) == str(plain)
    assert model_folder(str(tmp_path / "run")) == model_folder(str(shared.parent)) == str(shared)
    assert model_folder(str(tmp_path / "run"), "meta") == str(shared)
    assert model_folder(str(tmp_path / "two"), "meta") == str(meta)
    final = model(tmp_path / "run" / "final" / "policy")
    assert model_folder(str(tmp_path / "run")) == str(final)


def test_a_hub_name_passes_and_a_path_that_leads_nowhere_does_not(tmp_path: Path) -> None:
    assert model_folder("Qwen/Qwen2.5-7B-Instruct") == "Qwen/Qwen2.5-7B-Instruct"
    with pytest.raises(ValueError, match="there is no such folder"):
        model_folder("./nowhere")
    for policy, names in (("policy", "no policy/,"), ("meta", "no meta/ or policy/,")):
        with pytest.raises(ValueError, match=f"holds no model: no config.json, {names} and no final/, latest or best/"):
            model_folder(str(tmp_path), policy)


def test_a_run_is_known_by_the_configuration_that_names_its_model(tmp_path: Path) -> None:
    run, policy = tmp_path / "run", model(tmp_path / "run" / "final" / "policy")
    (run / "config.yaml").write_text("model_name_or_path: embedded\n")
    assert run_of(str(run)) == run_of(str(run / "final")) == run_of(str(policy)) == run
    (tmp_path / "config.yaml").write_text("theirs: 1\n")
    assert run_of(str(model(tmp_path / "plain"))) is None
    assert run_of("owner/name") is None
