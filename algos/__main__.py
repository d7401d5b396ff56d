"""`rema NAME ...` and `python -m algos NAME ...` do what `python -m algos.NAME ...` does.

`run NAME` finds algorithms of other packages as well: a module that can be run, named in the entry-point group
`rema.algos`. What there is to run is read from the files, so that listing it imports nothing.
"""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

TRAIN = ("deepspeed", "psutil", "safetensors", "torch", "transformers", "tyro")
"""What the plain install lacks: the extra `train` brings it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with the arguments that follow its name.

    Args:
        argv: the command's name and its arguments; by default those of the process.

    Returns:
        The exit code: 0 after a command that returned and after `--help`, 1 where the extra `train` is not installed, 2
        where the name is missing or unknown, 130 after Ctrl-C. A command that exits by itself raises SystemExit.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if args[:1] in (["-h"], ["--help"]):
        print(usage())
        return 0
    modules = {name: f"algos.{name}" for name in commands()}
    offered = {entry.name: entry.module for entry in entry_points(group="rema.algos")}
    if args[:1] == ["run"]:
        args = args[1:]
        modules = offered | modules  # nobody takes the name of a command of ours
    if not args or args[0] not in modules:
        complaint = f"rema has no command {args[0]!r}" if args else "rema needs the name of a command"
        others = f"; rema run {args[0]} is one of another package" if args and args[0] in offered else ""
        print(f"{complaint}{others}; there are: {', '.join(sorted(modules))}", file=sys.stderr)
        return 2
    sys.argv[1:] = args[1:]
    return _run(args[0], modules[args[0]])


def _run(name: str, module: str) -> int:
    """Run a module; returns the exit code."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as error:
        if error.name in TRAIN:
            print(f"rema {name} needs {error.name}: pip install 'rema-rl[train]'", file=sys.stderr)
            return 1
        if _is_there(module):
            raise
        print(f"rema {name}: the package that offers it has no module {module}; install it anew", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"rema {name}: interrupted", file=sys.stderr)
        return 130
    return 0


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def usage() -> str:
    """The help text: every command with the first line of its docstring."""
    rows = [f"  {name:<14}{summary}" for name, summary in commands().items()]
    head = [
        "usage: rema NAME [flags]      same as python -m algos.NAME [flags]; --help after a name tells its flags",
        "       rema run NAME [flags]  also the algorithms that other packages offer",
        "",
    ]
    return "\n".join(head + rows)


def commands() -> dict[str, str]:
    """The name and the summary of each module of this package that can be run, found without importing any."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


if __name__ == "__main__":
    sys.exit(main())
