"""How fast the environment is, beside the least that PettingZoo itself costs.

    python -m benchmarks.env_speed

The scripted agents that know arithmetic play `math_v0` over four rounds (problems of four operations), drawing and
grading included; the same agents play a bare two-agent toy with the same spaces and wrapper and a constant
observation. So too with agents that say the same words whatever they see, which leaves nothing but the environments
themselves. Both are measured in short turns, one after the other: a speed is the best of its turns, the least disturbed
by whatever else the machine does; the ratio is the median over the pairs of neighbouring turns, which met the same
machine. Then one environment is reused for many episodes and its speed and memory are watched.

The last line is one JSON object: `over_toy` and `turns_per_second` with the scripted agents, `over_toy_same_words`, and
the speed in the first and last tenth and the growth of memory of the long run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from gymnasium.spaces import Dict, Discrete
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

import rema_env
from rema_env.problems.arithmetic import arithmetic
from rema_env.spaces import Chat, FreeText
from rema_env.views import scripted

ROUNDS = 4
TURNS = 2 * ROUNDS
Speak = Callable[[Mapping[str, Any]], str]
WORDS = ("Compute 4*2", "8", "Compute 8+1", "9", "Compute 9*3", "7", "Compute 7+1 [FINISH]", r"\boxed{8}")


class Toy(AECEnv[str, Any, str]):
    """Two agents say `TURNS` texts in turn and are paid 1 each: PettingZoo's books and nothing else."""

    metadata = {"name": "toy_v0", "render_modes": [], "is_parallelizable": False}  # noqa: RUF012
    render_mode = None

    def __init__(self, constants: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self.possible_agents = list(constants)
        self._sees = {a: Dict({"messages": Chat(), "turn": Discrete(TURNS + 1)}) for a in self.possible_agents}
        self._says = {a: FreeText() for a in self.possible_agents}
        self._constants = constants

    def observation_space(self, agent: str) -> Dict:
        """The text environment's."""
        return self._sees[agent]

    def action_space(self, agent: str) -> FreeText:
        """The text environment's."""
        return self._says[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin."""
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]
        self._skip_agent_selection = None
        self._turn = 0

    def observe(self, agent: str) -> Mapping[str, Any]:
        """Always the same."""
        return self._constants[agent]

    def step(self, action: str | None) -> None:
        """Count."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._turn += 1
        self._clear_rewards()
        if self._turn == TURNS:
            self.rewards = dict.fromkeys(self.agents, 1.0)
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[self._turn % 2]
        self._accumulate_rewards()
        self._deads_step_first()


def same_words() -> Speak:
    """Agents that look at nothing: four rounds of fixed words, one after the other."""
    words = itertools.cycle(WORDS)
    return lambda observation: next(words)


def make_env() -> AECEnv[str, Any, str]:
    """`math_v0` on problems that take four rounds."""
    return rema_env.math_v0(arithmetic(operations=ROUNDS), max_rounds=ROUNDS)


def make_toy() -> AECEnv[str, Any, str]:
    """The toy, each agent always seeing what it sees in the middle of a dialogue of `math_v0`."""
    env = make_env()
    env.reset(seed=0)
    for _ in range(ROUNDS):
        env.step(scripted(env.last()[0]))
    middle = env.observe("meta_0")
    env.step(scripted(middle))
    return OrderEnforcingWrapper(Toy({"meta_0": middle, "reasoner_0": env.observe("reasoner_0")}))


def play(env: AECEnv[str, Any, str], speak: Speak, episodes: int) -> float:
    """Turns a second over that many episodes."""
    start = perf_counter()
    for _ in range(episodes):
        env.reset()
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else speak(observation))
    return episodes * TURNS / (perf_counter() - start)


def resident_memory() -> int:
    """This process's resident memory [bytes]; 0 where the system does not tell."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * 4096 if told.exists() else 0


def compare(make_speak: Callable[[], Speak], episodes: int, repeats: int) -> tuple[float, float, float]:
    """Best turns a second of the toy and of the environment, and the median of env / toy over neighbouring turns."""
    toy, env = make_toy(), make_env()
    env.reset(seed=0)
    speeds = [(play(toy, make_speak(), episodes), play(env, make_speak(), episodes)) for _ in range(repeats)]
    return max(toy for toy, _ in speeds), max(env for _, env in speeds), median(env / toy for toy, env in speeds)


def endurance(episodes: int) -> tuple[list[float], int]:
    """Speed [turns/s] in each tenth of a long run of one environment; growth of memory after the first [bytes]."""
    env = make_env()
    env.reset(seed=0)
    speeds = [play(env, same_words(), max(episodes // 10, 1))]
    before = resident_memory()
    speeds += [play(env, same_words(), max(episodes // 10, 1)) for _ in range(9)]
    return speeds, resident_memory() - before


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, and as the last line one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.env_speed", description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=200, help="of each measurement against the toy")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--endurance", type=int, default=100_000, help="episodes of one reused environment; 0: none")
    given = parser.parse_args(argv)
    toy, env, ratio = compare(lambda: scripted, given.episodes, given.repeats)
    bare_toy, bare_env, bare_ratio = compare(same_words, given.episodes, given.repeats)
    print(f"{'turns a second':24}{'toy':>10}{'math_v0':>10}{'ratio':>8}")
    print(f"{'scripted agents':24}{toy:10,.0f}{env:10,.0f}{ratio:8.2f}")
    print(f"{'the same words':24}{bare_toy:10,.0f}{bare_env:10,.0f}{bare_ratio:8.2f}")
    told: dict[str, Any] = {"over_toy": round(ratio, 3), "turns_per_second": round(env)}
    told |= {"over_toy_same_words": round(bare_ratio, 3)}
    if given.endurance:
        speeds, grown = endurance(given.endurance)
        print(f"\n{given.endurance:,} episodes of one environment: {speeds[0]:,.0f} turns/s in the first tenth,")
        print(f"{speeds[-1]:,.0f} in the last; memory grew by {grown:,} bytes after the first")
        told |= {"first_tenth": round(speeds[0]), "last_tenth": round(speeds[-1]), "memory_growth_bytes": grown}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
