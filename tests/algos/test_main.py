"""`rema NAME` is `python -m algos.NAME`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from algos.__main__ import commands, main

REMA = Path(sys.executable).parent / "rema"


def test_the_console_script_prints_what_the_module_prints() -> None:
    by_name = subprocess.run([REMA, "doctor", "--help"], capture_output=True, text=True, check=True)
    by_module = subprocess.run(
        [sys.executable, "-m", "algos.doctor", "--help"], capture_output=True, text=True, check=True
    )
    assert by_name.stdout == by_module.stdout


def test_the_exit_code_of_a_command_is_passed_on() -> None:
    assert subprocess.run([REMA, "doctor", "--no-such-flag"], capture_output=True).returncode == 2


@pytest.mark.parametrize(
    ("argv", "complaint"), [(["grop"], "rema has no command 'grop'"), ([], "rema needs the name of a command")]
)
def test_a_missing_or_unknown_command_is_answered_with_what_there_is(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith(complaint)
    assert "doctor" in said


def test_help_names_every_command_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"{name} " in said and summary in said for name, summary in commands().items())
    assert all(summary.endswith(".") for summary in commands().values())


def test_listing_the_commands_imports_none_of_them() -> None:
    code = (
        "import sys, algos.__main__ as m; m.main(['--help']); "
        "print([name for name in sys.modules if name == 'torch' or name.startswith('algos.')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "['algos.__main__']"


@pytest.fixture
def offering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path in which a package offers algorithms: foreign, ghost (a module that is gone) and doctor."""
    info = tmp_path / "foreign_rl-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-rl\nVersion: 1\n")
    offers = {"foreign": "foreign_rl", "ghost": "gone.away", "doctor": "foreign_rl"}
    lines = (f"{name} = {module}\n" for name, module in offers.items())
    (info / "entry_points.txt").write_text("[rema.algos]\n" + "".join(lines))
    (tmp_path / "foreign_rl.py").write_text("import sys; print('foreign', sys.argv[1:], __name__)")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["rema"])
    return tmp_path


def test_run_starts_an_algorithm_that_another_package_offers(offering: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "algos", "run", "foreign", "--seed", "1"],
        env={"PYTHONPATH": f"{offering}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == "foreign ['--seed', '1'] __main__\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["foreign"], "rema has no command 'foreign'; rema run foreign is one of another package; there are: "),
        (["run", "ghost"], "rema ghost: the package that offers it has no module gone.away; install it anew\n"),
    ],
)
@pytest.mark.usefixtures("offering")
def test_an_algorithm_that_cannot_be_started_so_is_told_in_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.usefixtures("offering")
def test_no_package_takes_the_name_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "algos.doctor", raising=False)  # runpy warns of one that is imported already
    with pytest.raises(SystemExit):
        main(["run", "doctor", "--help"])
    assert "foreign" not in capsys.readouterr().out


def test_ctrl_c_while_a_command_starts_is_one_line(offering: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (offering / "foreign_rl.py").write_text("raise KeyboardInterrupt")
    assert main(["run", "foreign"]) == 130
    assert capsys.readouterr().err == "rema foreign: interrupted\n"


def test_a_command_without_the_training_libraries_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    told = subprocess.run(
        [sys.executable, "-m", "algos", "grpo", "--help"],
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stderr) == (1, "rema grpo needs torch: pip install 'rema-rl[train]'\n")
