"""python -m rema_env: list the environments, show an episode, print what was said in a run, part judged pairs.

python -m rema_env list
python -m rema_env show math_v0 --process single_turn --seed 3
python -m rema_env print RUN/episodes/step-000012.jsonl --number 5
python -m rema_env split-pairs rewardbench.parquet --split strict --output-dir splits
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rema_env.dialogue import DialogueEnv
from rema_env.problems.catalogue import CATALOGUE
from rema_env.problems.named import FAMILIES, load_pairs_named
from rema_env.problems.pair_split import TEST_SIZE, Strictness, split_tuples
from rema_env.process import META, PROCESSES
from rema_env.registry import names, resolve
from rema_env.render import escaping, transcript_text
from rema_env.roles import FINISH_FLAG
from rema_env.transcript import Problem, Transcript
from rema_env.views import scripted


def list_environments() -> str:
    """Every environment with its agents and spaces; then what problems there are by name."""
    lines = []
    for name in names():
        try:
            env = resolve(name)()
        except ValueError as error:  # an installed package offers what does not load
            lines.append(f"{name}: {error}")
            continue
        lines.append(f"{name}: {', '.join(env.possible_agents)}")
        for agent in env.possible_agents:
            lines.append(f"  {agent}  sees {env.observation_space(agent)}  says {env.action_space(agent)}")
        env.close()
    lines += ["", f"processes: {', '.join(PROCESSES)}", f"families of problems: {', '.join(FAMILIES)}", "known sets:"]
    lines += [
        f"  {name}: {known.rows} {known.kind} of {known.published}; licence: {known.licence}"
        for name, known in CATALOGUE.items()
    ]
    return "\n".join(lines)


def show(name: str, seed: int, dataset: str | None, arguments: Mapping[str, Any]) -> str:
    """One episode with scripted seats that know the answer, as text."""
    given = dict(arguments) | ({} if dataset is None else {"dataset": dataset})
    try:
        env = resolve(name)(**given)
    except TypeError as error:
        raise ValueError(f"{name} makes no environment from {given or 'no arguments'}: {error}") from error
    world = getattr(env, "unwrapped", None)
    if not isinstance(world, DialogueEnv):
        raise ValueError(f"{name} is no dialogue environment of this package; nobody here knows what to say in it")
    env.reset(seed=seed)
    paid = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        paid[agent] += reward
        env.step(None if terminated or truncated else _knowing(world, agent, observation))
    return transcript_text(world.transcript, paid)


def _knowing(env: DialogueEnv, agent: str, observation: Mapping[str, Any]) -> str:
    """What a seat says that knows the answer: the steps of an arithmetic problem, else one plan and the answer."""
    problem = env.transcript.problem
    if env.process.name == "multi_turn" and problem.source == "arithmetic":
        return scripted(observation)
    if agent.startswith(META):
        return f"Work it out step by step, check it, and answer. {FINISH_FLAG.text}"
    return f"I have worked it out. {env.tag.example(problem.answer)}"


def print_episodes(path: Path, number: int | None) -> str:
    """The dialogues of an episodes file, or one of them, as text.

    Raises:
        ValueError: for a line that is no episode, or a number that the file does not have.
    """
    found = [
        transcript_text(transcript, rewards)
        for k, (transcript, rewards) in enumerate(_episodes(path))
        if number is None or k == number
    ]
    if not found:
        raise ValueError(f"{path} has no episode {number}" if number is not None else f"{path} has no episodes")
    return f"\n{'-' * 80}\n".join(found)


def _episodes(path: Path) -> Iterator[tuple[Transcript, dict[str, float]]]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                data = json.loads(line)
                yield Transcript.from_json(data.get("transcript", data)), dict(data.get("rewards", {}))
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: not an episode ({error!r:.160})") from None


def split_pairs(source: str, strictness: Strictness, test_size: int, seed: int, folder: Path) -> str:
    """Part the pairs of a file or a known set and write both parts as JSON Lines in JudgeBench's columns."""
    pairs = load_pairs_named(source)
    if not isinstance(pairs, Sequence):
        raise ValueError(f"{source} has no end that could be parted")
    parts = split_tuples(pairs, strictness, test_size=test_size, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    told = []
    for name, problems in zip(("train", "test"), parts, strict=True):
        path = folder / f"{strictness}-{name}.jsonl"
        path.write_text("".join(json.dumps(_row(p), ensure_ascii=False) + "\n" for p in problems), encoding="utf-8")
        told.append(f"{path}: {len(problems)} tuples; read it with orders='given'")
    return "\n".join(told)


def _row(problem: Problem) -> dict[str, Any]:
    extra = dict(problem.extra)
    a, b = extra.pop("answer_a"), extra.pop("answer_b")
    label = "A>B" if problem.answer == "A" else "B>A"
    kept: dict[str, Any] = {key: extra[key] for key in ("subset", "section") if key in extra}
    return {"id": problem.id, "question": problem.question, "response_A": a, "response_B": b, "label": label, **kept}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m rema_env", description="Text environments: look at them.")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every environment with its spaces, and the known problems")
    one = commands.add_parser("show", help="one episode with scripted seats that know the answer")
    one.add_argument("name", help="an environment's name, or package.module:function")
    one.add_argument("--seed", type=int, default=0, help="which draw of its problems (default 0)")
    one.add_argument("--process", choices=list(PROCESSES), help="who speaks when (default: the environment's)")
    one.add_argument("--dataset", help="a family, a known set, or a file")
    one.add_argument("--max-rounds", type=int, help="the limit of rounds")
    told = commands.add_parser("print", help="the dialogues of an episodes file")
    told.add_argument("file", type=Path, help="JSON Lines of episodes or transcripts, e.g. of RUN/episodes")
    told.add_argument("--number", type=int, help="only this one, counted from 0")
    parted = commands.add_parser("split-pairs", help="part judged pairs into training and test")
    parted.add_argument("file", help="rewardbench, judgebench, or a file in the format of one of them")
    how = "the parts share no question, or no tuple"
    parted.add_argument("--split", choices=["strict", "loose"], required=True, help=how)
    parted.add_argument("--test-size", type=int, default=TEST_SIZE, help=f"tuples to test on (default {TEST_SIZE})")
    parted.add_argument("--seed", type=int, default=0, help="of the split (default 0)")
    parted.add_argument("--output-dir", type=Path, default=Path("."), help="where both files go (default: here)")
    return top


def run(given: argparse.Namespace) -> str:
    """What the command line asked for, as text."""
    if given.command == "list":
        return list_environments()
    if given.command == "show":
        changed = {"process": given.process, "max_rounds": given.max_rounds}
        return show(given.name, given.seed, given.dataset, {k: v for k, v in changed.items() if v is not None})
    if given.command == "print":
        return print_episodes(given.file, given.number)
    return split_pairs(given.file, given.split, given.test_size, given.seed, given.output_dir)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; 0, or 2 with one message where something given is wrong."""
    escaping(sys.stdout)
    try:
        print(run(parser().parse_args(arguments)), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has left: nothing more to say
        return 1
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
