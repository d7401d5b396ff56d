"""Whether a command may write a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from algos.claim import claim


def holding(folder: Path, *names: str, origin: str | None = None) -> Path:
    """A folder of a training run that started from `origin`, with these folders in it."""
    for name in names:
        (folder / name).mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump({"resume_from_checkpoint": origin}))
    return folder


def refused(folder: Path, resume: str | None) -> str:
    """What is said, once nothing in the folder has changed."""
    before = sorted(folder.rglob("*")) if folder.is_dir() else None
    with pytest.raises(ValueError, match=r"^--output-dir") as error:
        claim(folder, resume)
    assert before == (sorted(folder.rglob("*")) if folder.is_dir() else None)
    return str(error.value)


@pytest.mark.parametrize("resume", [None, "latest", "other/checkpoint-1"])
def test_a_new_folder_and_one_that_was_only_claimed_are_taken(resume: str | None, tmp_path: Path) -> None:
    claim(tmp_path / "runs" / "new", resume)
    claim(tmp_path / "runs" / "new", resume)


@pytest.mark.parametrize("resume", [None, "latest", "other/checkpoint-1"])
def test_what_is_no_run_is_not_touched(resume: str | None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in refused(tmp_path / "file", resume)
    (tmp_path / "notes.old").mkdir()
    assert "name a new folder" in refused(tmp_path, resume)
    (tmp_path / "config.yaml").write_text("seed: 0")
    assert "name a new folder" in refused(tmp_path, resume)


def test_a_run_is_never_begun_in_the_folder_of_another(tmp_path: Path) -> None:
    run = holding(tmp_path / "run", "checkpoint-2")
    assert "holds a run already: name a new folder; training goes on in it with --resume" in refused(run, None)
    holding(tmp_path / "other", "checkpoint-1")
    said = refused(run, str(tmp_path / "other" / "checkpoint-1"))
    assert f"holds another run than that of {tmp_path / 'other' / 'checkpoint-1'}" in said


def test_a_run_goes_on_from_its_own_checkpoints(tmp_path: Path) -> None:
    for name in ("checkpoint-2", "checkpoint-2.old"):
        run = holding(tmp_path / name, name, "final")
        for resume in ("latest", str(run), str(run / name)):
            claim(run, resume)


def test_a_run_that_is_over_and_left_no_checkpoint_is_not_begun_again(tmp_path: Path) -> None:
    run = holding(tmp_path / "run", "final", "checkpoint-2.tmp")
    assert f"start from its weights in a new folder, with --model-name-or-path {run}" in refused(run, "latest")


def test_a_run_that_stopped_before_its_first_checkpoint_starts_again_where_it_started(tmp_path: Path) -> None:
    claim(holding(tmp_path / "run"), "latest")
    origin = str(tmp_path / "other" / "checkpoint-1")
    branch = holding(tmp_path / "branch", origin=origin)
    claim(branch, origin)
    assert f"started from {origin} and has no checkpoint yet: go on with --resume" in refused(branch, "latest")
    assert "holds another run" in refused(branch, str(tmp_path / "other" / "checkpoint-2"))
    (branch / "checkpoint-3").mkdir()
    assert "go on with --resume-from-checkpoint latest" in refused(branch, origin)
    claim(branch, "latest")


HOLDS = """
import sys
from pathlib import Path
from algos.claim import claim

claim(Path(sys.argv[1]))
print(flush=True)
input()
"""


def test_a_living_process_keeps_others_out_until_it_ends(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLDS, str(tmp_path / "run")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        for resume in (None, "latest"):
            assert f"is in use by process {holder.pid} on " in refused(tmp_path / "run", resume)
        holder.kill()
        holder.wait()
        claim(tmp_path / "run")
