"""The environment and the problems that a configuration names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

from pettingzoo import AECEnv

from algos.config import EnvConfig, EvalConfig
from algos.schedule import last_rounds
from rema_agents.models import EMBEDDED
from rema_agents.yaml_file import read_yaml
from rema_env.dialogue import DialogueEnv
from rema_env.problems import Problems
from rema_env.problems.overlap import overlap
from rema_env.registry import MakeEnv, resolve
from rema_env.transcript import Problem, role_of

READING = ("question_column", "answer_column", "streaming")  # how a data set is read


@dataclass(frozen=True)
class World:
    """What the agents play.

    Attributes:
        make_env: a new environment.
        agents: who plays in it.
        problems: to train on.
        heldout: never trained on; None where the source has no such part.
        system_prompts: role -> text, as far as the environment tells.
    """

    make_env: Callable[[], AECEnv]
    agents: tuple[str, ...]
    problems: Problems
    heldout: Problems | None
    system_prompts: Mapping[str, str] = field(default_factory=dict)


def make_world(config: EnvConfig) -> World:
    """Build it. Raises ValueError, naming what is wrong, for an unknown environment, file, column or prompt file."""
    if config.streaming and config.dataset_name is None:
        raise ValueError("--streaming tells how a data set is read, and there is none; name it with --dataset-name")
    factory = resolve(config.env)
    arguments = _arguments(config)
    env = _made(config.env, factory, arguments)
    process = getattr(env.unwrapped, "process", None)
    name = getattr(process, "name", config.process)
    if config.system_prompts == EMBEDDED and (prompts := embedded_prompts(name, env.possible_agents)):
        arguments = {"system_prompts": prompts, **arguments}
        env = _made(config.env, factory, arguments)
    problems = getattr(env.unwrapped, "problems", None)
    if problems is None:
        raise ValueError(
            f"--env {config.env} names no problems of its own (an attribute `problems` with draw(seed, index)); "
            "give --dataset-name"
        )
    parted = getattr(problems, "parted", None)
    return World(
        make_env=partial(factory, **_with_problems(factory, env, arguments, problems)),
        agents=tuple(env.possible_agents),
        problems=parted("train") if parted else problems,
        heldout=parted("heldout") if parted else None,
        system_prompts={role: text or "" for role, text in getattr(env.unwrapped, "system_prompts", {}).items()},
    )


def _with_problems(
    factory: MakeEnv, env: AECEnv, arguments: Mapping[str, Any], problems: Problems
) -> Mapping[str, Any]:
    """What further environments are told: one that is made by this package gets the problems, and reads nothing again.

    A function that names `dataset` among its arguments may do anything with it, so it is told what the first was.
    """
    by_this_package = isinstance(env.unwrapped, DialogueEnv) and "dataset" not in signature(factory).parameters
    if "dataset" not in arguments or not by_this_package:
        return arguments
    return {**{name: value for name, value in arguments.items() if name not in READING}, "dataset": problems}


def _made(name: str, factory: MakeEnv, arguments: Mapping[str, Any]) -> AECEnv:
    try:
        env = factory(**arguments)
    except TypeError as error:
        raise ValueError(f"--env {name} does not take these settings: {error}") from error
    if not isinstance(env, AECEnv):
        raise ValueError(f"--env {name} makes {env!r:.60}, which is no AEC environment of PettingZoo's")
    return env


def embedded_prompts(process: str, agents: Sequence[str]) -> dict[str, str]:
    """The prompts that the embedded model was made with, for those of its roles that an environment has.

    In a process that it does not know it hears those of multi_turn.
    """
    from rema_agents.tiny import SYSTEM_PROMPTS

    prompts = SYSTEM_PROMPTS.get(process, SYSTEM_PROMPTS["multi_turn"])
    return {role: text for role, text in prompts.items() if role in map(role_of, agents)}


def problems_of(name: str, config: EnvConfig) -> Problems:
    """The problems that a data set's name stands for in this environment: a file, a known set, a family, the hub."""
    named = dataclasses.replace(config, dataset_name=name, streaming=False)
    env = _made(config.env, resolve(config.env), _arguments(named))
    problems: Problems = env.unwrapped.problems
    return problems


def eval_sets(config: EvalConfig, env: EnvConfig, world: World) -> dict[str, Sequence[Problem]]:
    """The first `eval_num_problems` of each evaluation set, by its name; none where there is nothing to evaluate on.

    Of a family of which no part is named, the part that is never trained on. Raises ValueError for a set named twice.
    """
    if (env.question_column or env.answer_column) and env.dataset_name is None and not config.eval_datasets:
        raise ValueError(
            "--question-column and --answer-column tell how a data set is read, and there is none; name it with "
            "--dataset-name or --eval-datasets"
        )
    n = config.eval_num_problems
    if config.eval_datasets:
        names = set_names(config.eval_datasets)
        sources = {
            short: _heldout(problems_of(name, env)) for short, name in zip(names, config.eval_datasets, strict=True)
        }
    elif world.heldout is not None:
        sources = {"heldout": world.heldout}
    else:
        return {}
    return {name: _first(source, n) for name, source in sources.items()}


def kept_apart(world: World, sets: Mapping[str, Sequence[Problem]]) -> World:
    """The same world, in which a stream, which cannot be searched beforehand, passes over what is evaluated on."""
    without = getattr(world.problems, "without", None)
    return dataclasses.replace(world, problems=without(chain.from_iterable(sets.values()))) if without else world


def trained_on(problems: Problems, evaluation: Sequence[Problem], name: str) -> str | None:
    """One sentence where a training set holds questions of an evaluation set, or is one of the same name; else None."""
    if isinstance(problems, Iterable):
        return overlap(problems, evaluation, name)
    return f"{name} is what is trained on: its score says little" if problems.name == name else None


def _heldout(source: Problems) -> Problems:
    """Of what is made by rule the part that is never trained on, unless a part was named."""
    parted = getattr(source, "parted", None)
    held: Problems = parted("heldout") if parted and getattr(source, "split", None) is None else source
    return held


def _first(source: Problems, n: int) -> Sequence[Problem]:
    if isinstance(source, Sequence):
        return source[:n]
    listed = getattr(source, "listed", None)
    return listed(n) if listed else [source.draw(0, index) for index in range(n)]


def set_names(named: Sequence[str]) -> list[str]:
    """What evaluation sets are called: as short as tells them apart, a file by its stem if that does.

    Raises:
        ValueError: for a set that is named twice.
    """
    for form in (lambda path: path.stem, lambda path: str(path.with_suffix("")), str):
        short = [form(Path(name)) if Path(name).exists() else name for name in named]
        names = [name.strip("/").replace("/", "_") for name in short]
        if len(set(names)) == len(names):
            return names
    twice = next(name for name in names if names.count(name) > 1)
    raise ValueError(f"--eval-datasets names {twice} twice")


def _arguments(config: EnvConfig) -> dict[str, Any]:
    """What the environment is told: the flags that were changed, so that its own defaults stay its own business."""
    own = EnvConfig()
    reading = READING if config.dataset_name is not None else ()
    named = ("process", "rewards", "max_rounds", "on_cut", "unfinished_reward", "grader", *reading)
    arguments = {n: getattr(config, n) for n in named if getattr(config, n) != getattr(own, n)}
    if "max_rounds" in arguments:
        arguments["max_rounds"] = last_rounds(config.max_rounds)
    if config.dataset_name is not None:
        arguments["dataset"] = config.dataset_name
    if config.system_prompts is not None and config.system_prompts != EMBEDDED:
        arguments["system_prompts"] = read_system_prompts(config.system_prompts)
    return arguments | config.env_kwargs


def read_system_prompts(name: str) -> Mapping[str, str]:
    """role -> text, from a YAML file."""
    flag, holds = "--system-prompts", "`role: text` lines"
    prompts = read_yaml(name, flag, holds=holds)
    if not all(isinstance(text, str) for text in prompts.values()):
        raise ValueError(f"{flag} {name} must hold {holds}")
    return prompts


def with_env(config: EnvConfig, **changes: Any) -> EnvConfig:
    """The same world under other rules, e.g. `max_rounds` of an evaluation."""
    return dataclasses.replace(config, **changes)
