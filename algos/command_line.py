"""From a command line to a configuration: command line over `--config` file over `--preset` over defaults.

Unknown keys are refused, and a mistake is one message and exit code 2.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, get_type_hints

import tyro

from algos.config import CommandConfig
from algos.disk_full import tells_no_room
from algos.other_names import in_our_words, known_flag, with_our_words
from algos.presets import PRESETS
from algos.typed import typed
from rema_agents.yaml_file import read_yaml

C = TypeVar("C", bound=CommandConfig)


def flatten(config: CommandConfig) -> dict[str, Any]:
    """All settings by flag name (with underscores), plain YAML values."""
    flat: dict[str, Any] = {}
    for group in _groups(config):
        for item in dataclasses.fields(getattr(config, group)):
            value = getattr(getattr(config, group), item.name)
            flat[item.name] = list(value) if isinstance(value, tuple) else value
    return flat


def _groups(config: CommandConfig) -> list[str]:
    return [f.name for f in dataclasses.fields(config) if dataclasses.is_dataclass(getattr(config, f.name))]


def lay_over(config: C, settings: Mapping[str, Any], source: str) -> C:
    """`config` with the named settings changed. Raises ValueError for a name or a value that it cannot have.

    Args:
        settings: flag name (with underscores) -> value.
        source: where they come from, for the message.
    """
    group_of = {item.name: group for group in _groups(config) for item in dataclasses.fields(getattr(config, group))}
    hints = {group: get_type_hints(type(getattr(config, group)), include_extras=True) for group in _groups(config)}
    changes: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        name = name.replace("-", "_")
        if name not in group_of:
            raise ValueError(f"{source}: there is no setting {name!r}; there are: {', '.join(sorted(group_of))}")
        group = group_of[name]
        try:
            changes.setdefault(group, {})[name] = typed(in_our_words(name, value), hints[group][name])
        except TypeError as error:
            raise ValueError(f"{source}: {name} {error}") from None
    groups = {name: dataclasses.replace(getattr(config, name), **change) for name, change in changes.items()}
    return dataclasses.replace(config, **groups)


def parse(
    config_class: type[C],
    argv: Sequence[str],
    *,
    prog: str,
    defaults: Callable[[Sequence[str]], C] | None = None,
) -> C:
    """The configuration that a command line stands for. A mistake prints one message and exits with code 2.

    Args:
        defaults: what holds before the command line's own flags; default: class defaults, preset, file.
    """
    with exit_on_mistakes(prog):
        own = [arg for arg in argv if not arg.startswith("--local_rank=")]  # DeepSpeed's launcher adds it
        args = [known_flag(arg) for arg in with_our_words(own)]
        default = defaults(args) if defaults else _defaults(config_class, args)
        return tyro.cli(config_class, args=args, default=default, prog=prog)


@contextmanager
def exit_on_mistakes(prog: str) -> Iterator[None]:
    """Within: a ValueError is the user's to mend, so its message is printed and the process exits with code 2.

    Ctrl-C exits with 130, a full disk with 1, in one line as well.
    """
    try:
        with exit_on_full_disk(prog):
            yield
    except (ValueError, KeyboardInterrupt) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        _say(prog, "interrupted" if interrupted else error)
        raise SystemExit(130 if interrupted else 2) from None


@contextmanager
def exit_on_full_disk(prog: str) -> Iterator[None]:
    """Within: where the disk has no room, that is one message, and the process exits with code 1."""
    try:
        yield
    except OSError as error:
        if not tells_no_room(error):
            raise
        _say(prog, error)
        raise SystemExit(1) from None


def _say(prog: str, what: object) -> None:
    """In one line. A rank other than the first names itself: the mistake may be on its machine alone."""
    rank = os.environ.get("RANK", "0")
    print(f"{prog}{f', rank {rank}' if rank != '0' else ''}: {what}", file=sys.stderr)


def _defaults(config_class: type[C], args: Sequence[str]) -> C:
    """What holds before the command line's own flags: class defaults, then preset, then file."""
    path = peek(args, "config")
    return with_settings(config_class, read_yaml(path, "--config") if path else {}, str(path), args)


def with_settings(config_class: type[C], settings: Mapping[str, Any], source: str, args: Sequence[str] = ()) -> C:
    """Class defaults, then the preset that `args` or `settings` name (`embedded` where no model is), then settings."""
    model = peek(args, "model-name-or-path") or settings.get("model_name_or_path")
    preset = peek(args, "preset") or settings.get("preset") or (None if model else "embedded")
    config = config_class()
    if preset:
        if preset not in PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(sorted(PRESETS))}")
        known = flatten(config)
        config = lay_over(config, {k: v for k, v in PRESETS[preset].items() if k in known}, f"preset {preset}")
        config = lay_over(config, {"preset": preset}, "preset")
    return lay_over(config, settings, source)


def peek(args: Sequence[str], flag: str) -> str | None:
    """The value of one flag, read before the full parser runs."""
    value = None
    for i, arg in enumerate(args):
        name, _, rest = arg.partition("=")
        if name.replace("_", "-") == f"--{flag}":
            value = rest or (args[i + 1] if i + 1 < len(args) else None)
    return value
