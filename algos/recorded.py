"""A run that is on the disk: under which settings its episodes were made, by which weights, and in which step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pettingzoo import AECEnv

from algos.command_line import flatten, lay_over
from algos.config import CommandConfig, EvalConfig
from algos.samplers import servers_of
from algos.schedule import rounds_at
from algos.team import policy_names
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.models import model_folder
from rema_agents.yaml_file import read_yaml


@dataclass(frozen=True)
class Recorded:
    """What is known about the run whose episodes are verified: what config.yaml says of it.

    A run that went on under other rules is known by those alone: what was stored before does not fit them.

    Attributes:
        path: the run folder.
        config: the settings it was made with.
        temperature, eval_temperature: of sampling in training and in evaluation.
        eval_max_rounds: the limit of rounds in evaluation; None: as in training.
        group_rewards: what training paid besides; see `algos.group_pay`.
        make_env: its environment.
        codec_of: agent -> chat format.
        policy_of: agent -> name of its policy.
    """

    path: Path
    config: CommandConfig
    temperature: float
    eval_temperature: float
    eval_max_rounds: int | None
    group_rewards: Mapping[str, float]
    make_env: Callable[..., AECEnv]
    codec_of: Mapping[str, ChatCodec]
    policy_of: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """From RUN/config.yaml. Raises ValueError where there is none."""
        settings = read_yaml(str(path / "config.yaml"))
        known = flatten(CommandConfig())
        config = lay_over(CommandConfig(), {n: v for n, v in settings.items() if n in known}, str(path))
        world = make_world(config.env)
        names = policy_names(config.model, world.agents)
        start = str(config.model.model_name_or_path)
        template = config.model.chat_template_kwargs
        codecs = {
            name: ChatCodec.from_pretrained(model_folder(start, name), chat_template_kwargs=template)
            for name in set(names.values())
        }
        return cls(
            path,
            config,
            float(settings.get("temperature", 1.0)),
            float(settings.get("eval_temperature", EvalConfig().eval_temperature)),
            settings.get("eval_max_rounds"),
            settings.get("group_rewards") or {},
            world.make_env,
            {agent: codecs[name] for agent, name in names.items()},
            names,
        )

    def files(self) -> list[Path]:
        """All that holds episodes, in the order of its making. Raises ValueError where there is none."""
        kinds = (("episodes", "step-*.jsonl"), ("evaluation", "*.jsonl"))
        files = [file for folder, pattern in kinds for file in sorted((self.path / folder).glob(pattern))]
        if not files:
            raise ValueError(f"{self.path} holds no episodes, neither in episodes/ nor in evaluation/")
        return files

    def env(self, file: Path) -> AECEnv:
        """The environment that a file's episodes were played in: the limit of rounds may rise with the steps."""
        rounds = self.config.env.max_rounds
        if is_training(file):
            return (
                self.make_env(max_rounds=rounds_at(rounds, step_of(file)))
                if isinstance(rounds, str)
                else self.make_env()
            )
        return self.make_env() if self.eval_max_rounds is None else self.make_env(max_rounds=self.eval_max_rounds)

    def last_version(self, file: Path) -> int:
        """The highest number that the weights can have had: one publish a step, and a step is played before its own."""
        return step_of(file) - is_training(file)

    def gives_logps(self, agent: str) -> bool:
        """Whether an agent's sampler always gives log-probabilities; a server may give none."""
        return self.policy_of[agent] not in servers_of(self.config.model, set(self.policy_of.values()))

    def weights(self) -> dict[tuple[str, int], str]:
        """(policy, weight version) -> the folder that holds those weights."""
        start = str(self.config.model.model_name_or_path)
        found = {(name, 0): model_folder(start, name) for name in set(self.policy_of.values())}
        for progress in self.path.glob("checkpoint-*/trainer/progress.json"):
            for name, version in json.loads(progress.read_text())["versions"].items():
                found[name, version] = str(progress.parent.parent / name)
        return found


def is_training(file: Path) -> bool:
    """Whether a file holds a training step's episodes, not those of an evaluation."""
    return file.parent.name == "episodes"


def step_of(file: Path) -> int:
    """The step that a file's episodes were played in, or after which they were; 0 where it names none."""
    named = re.search(r"step-(\d+)$", file.stem)
    return int(named[1]) if named else 0
