"""The environment and the problems that a configuration names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from pettingzoo import AECEnv

from algos.config import EnvConfig, EvalConfig
from algos.models import EMBEDDED
from algos.schedule import last_rounds
from rema_env.factory import EnvFactory
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
        make_env=partial(factory, **_with_problems(factory, arguments, problems)),
        agents=tuple(env.possible_agents),
        problems=parted("train") if parted else problems,
        heldout=parted("heldout") if parted else None,
        system_prompts={role: text or "" for role, text in getattr(env.unwrapped, "system_prompts", {}).items()},
    )


def _with_problems(factory: MakeEnv, arguments: Mapping[str, Any], problems: Problems) -> Mapping[str, Any]:
    """What further environments are told: one of this package's own gets the problems, and reads no data set again."""
    if "dataset" not in arguments or not isinstance(factory, EnvFactory):
        return arguments
    kept = {name: value for name, value in arguments.items() if name not in ("dataset", *READING)}
    return {**kept, "problems": problems}


def _made(name: str, factory: MakeEnv, arguments: Mapping[str, Any]) -> AECEnv:
    try:
        return factory(**arguments)
    except TypeError as error:
        raise ValueError(f"--env {name} does not take these settings: {error}") from error


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
    """The first `eval_num_problems` of each evaluation set, by its name; none where there is nothing to evaluate on."""
    n = config.eval_num_problems
    if config.eval_datasets:
        sources = {_set_name(name): problems_of(name, env) for name in config.eval_datasets}
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
    """One sentence where a training set holds questions of an evaluation set; None where it does not, or is endless."""
    return overlap(problems, evaluation, name) if isinstance(problems, Iterable) else None


def _first(source: Problems, n: int) -> Sequence[Problem]:
    if isinstance(source, Sequence):
        return source[:n]
    listed = getattr(source, "listed", None)
    return listed(n) if listed else [source.draw(0, index) for index in range(n)]


def _set_name(name: str) -> str:
    return Path(name).stem if Path(name).exists() else name.replace("/", "_")


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
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"--system-prompts {name}: there is no such file")
    try:
        prompts = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except yaml.YAMLError as error:
        raise ValueError(f"--system-prompts {name} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ValueError(f"--system-prompts {name} must hold `role: text` lines")
    return prompts


def with_env(config: EnvConfig, **changes: Any) -> EnvConfig:
    """The same world under other rules, e.g. `max_rounds` of an evaluation."""
    return dataclasses.replace(config, **changes)
