"""Prove that a run's stored episodes are exact: ids, masks, texts and log-probabilities fit together.

    python -m algos.verify RUN

Every dialogue is played again from its texts. At each turn the prompt that environment and chat format give must be the
one that was stored, id for id, and the sampled ids must say the text that the partner saw. Rows joined from the calls
must train exactly the sampled tokens. Log-probabilities are computed anew for the episodes whose weights are on disk
(the start, checkpoints that are still there), and how many that are is said.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pettingzoo import AECEnv

from algos.batch import join_calls, make_batch
from algos.command_line import exit_on_mistakes, flatten, lay_over, read_yaml
from algos.config import CommandConfig, EvalConfig
from algos.models import model_folder
from algos.scoring import Precision, Reference
from algos.team import policy_names
from algos.world import make_world
from rema_agents.chat import ChatCodec
from rema_agents.episodes import read_episodes
from rema_agents.types import Call, Episode
from rema_env.render import escaping
from rema_env.transcript import Finish

TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
"""Most difference [nats] between a stored log-probability and the one computed anew, by the dtype of computing."""

SHOWN = 10


@dataclass(frozen=True)
class Recorded:
    """What is known about the run whose episodes are verified.

    Attributes:
        path: the run folder.
        config: the settings it was made with.
        temperature, eval_temperature: of sampling in training and in evaluation.
        make_env: its environment.
        codec_of: agent -> chat format.
        policy_of: agent -> name of its policy.
    """

    path: Path
    config: CommandConfig
    temperature: float
    eval_temperature: float
    make_env: Callable[[], AECEnv]
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
            world.make_env,
            {agent: codecs[name] for agent, name in names.items()},
            names,
        )

    def weights(self) -> dict[tuple[str, int], str]:
        """(policy, weight version) -> the folder that holds those weights."""
        start = str(self.config.model.model_name_or_path)
        found = {(name, 0): model_folder(start, name) for name in set(self.policy_of.values())}
        for progress in self.path.glob("checkpoint-*/trainer/progress.json"):
            for name, version in json.loads(progress.read_text())["versions"].items():
                found[name, version] = str(progress.parent.parent / name)
        return found


def faults_of(episode: Episode, env: AECEnv, recorded: Recorded) -> Iterator[str]:
    """What does not fit together in one episode, each fault in one sentence; nothing where all does."""
    calls = {call.turn: call for call in episode.calls}
    said: dict[str, list[Call]] = defaultdict(list)
    env.reset(options={"problem": episode.problem})
    for k, turn in enumerate(episode.transcript.turns):
        if env.agent_selection != turn.agent:
            yield f"turn {k} is {turn.agent}'s, but it was {env.agent_selection}'s"
            return
        if (call := calls.pop(k, None)) is not None:
            yield from _faults_of_call(call, turn.message, env.observe(turn.agent), said[turn.agent], recorded)
            said[turn.agent].append(call)
        env.step(turn.message)
    if calls:
        yield f"there are sampled ids for turns {sorted(calls)}, which the transcript does not have"
    for agent, own in said.items():
        if all(len(call.completion.logps) in (0, len(call.completion.token_ids)) for call in own):
            yield from _faults_of_rows(agent, own)


def _faults_of_call(
    call: Call, message: Any, observation: Mapping[str, Any], said: Sequence[Call], recorded: Recorded
) -> Iterator[str]:
    codec, where = recorded.codec_of[call.agent], f"turn {call.turn} ({call.agent})"
    expected = codec.prompt_ids(observation["messages"], said)
    if call.prompt_ids != expected:
        place = next((i for i, (a, b) in enumerate(zip(call.prompt_ids, expected, strict=False)) if a != b), None)
        at = f"id {place}" if place is not None else f"length {len(call.prompt_ids)} instead of {len(expected)}"
        yield f"{where}: the stored prompt is not what the chat gives, from {at} on"
    spoken = codec.message(call.completion, share_thinking=recorded.config.model.share_thinking)
    if spoken != message:
        yield f"{where}: the sampled ids say {str(spoken)!r:.80}, the transcript {str(message)!r:.80}"
    ids, logps = call.completion.token_ids, call.completion.logps
    if len(logps) not in (0, len(ids)):
        yield f"{where}: {len(ids)} sampled ids but {len(logps)} log-probabilities"
    stopped = bool(ids) and ids[-1] in codec.stop_token_ids
    if call.completion.finish is Finish.LENGTH and stopped:
        yield f"{where}: it counts as cut, but its last id is a stop token"


def _faults_of_rows(agent: str, calls: Sequence[Call]) -> Iterator[str]:
    spoken = [call.completion.token_ids for call in calls if call.completion.token_ids]
    sampled = [(k, i) for k, ids in enumerate(spoken) for i in ids]
    rows = join_calls(calls)
    trained = [(int(k), int(i)) for row in rows for k, i in zip(row.turn, row.ids, strict=True) if k >= 0]
    if trained != sampled:
        yield f"{agent}: the rows would train other tokens than those sampled"


def logp_gaps(episodes: Sequence[Episode], recorded: Recorded, temperature: float) -> tuple[int, int, float]:
    """Compare stored with recomputed log-probabilities, call by call.

    Returns:
        calls compared, calls in all, and the largest difference [nats].
    """
    precision = Precision.here(recorded.config.model.bf16)
    by_weights: dict[tuple[str, int], list[Episode]] = defaultdict(list)
    for episode in episodes:
        for call in episode.calls:
            key = (recorded.policy_of[call.agent], call.completion.weight_version)
            if len(call.completion.logps) == len(call.completion.token_ids):
                by_weights[key].append(_alone(episode, call))
    compared, worst = 0, 0.0
    for key, folder in recorded.weights().items():
        if not by_weights[key]:
            continue
        reference = Reference(folder, precision, temperature=temperature or 1.0, micro_batch_tokens=4096)
        batch = make_batch(by_weights[key], tuple(recorded.policy_of))
        gap_N = (reference.logp(batch) - batch.sampled_logp_BT)[batch.trained_BT].abs()
        compared, worst = compared + len(by_weights[key]), max(worst, float(gap_N.max()))
    return compared, sum(len(e.calls) for e in episodes), worst


def _alone(episode: Episode, call: Call) -> Episode:
    """The episode with one of its calls: calls of one episode may come from different weights."""
    rewards = dict.fromkeys({call.agent, *episode.rewards}, 0.0)
    transcript = episode.transcript
    return Episode(episode.problem, transcript, (call,), rewards, group=episode.group, dialogue=episode.dialogue)


def verify(path: Path) -> list[str]:
    """Verify all stored episodes of a run; prints a line for each file and returns the faults.

    Raises:
        ValueError: the folder holds no run, or no episodes.
    """
    recorded = Recorded.read(path)
    files = [*sorted((path / "episodes").glob("step-*.jsonl")), *sorted((path / "evaluation").glob("*.jsonl"))]
    if not files:
        raise ValueError(f"{path} holds no episodes, neither in episodes/ nor in evaluation/")
    env, faults = recorded.make_env(), []
    for file in files:
        episodes = list(read_episodes(file))
        trained = file.parent.name == "episodes"
        found = [
            f"{file.name}, dialogue {episode.dialogue}: {fault}"
            for episode in episodes
            for fault in faults_of(episode, env, recorded)
        ]
        compared, calls, worst = logp_gaps(
            episodes, recorded, recorded.temperature if trained else recorded.eval_temperature
        )
        limit = TOLERANCE["bfloat16" if Precision.here(recorded.config.model.bf16).bf16 else "float32"]
        if compared and worst > limit:
            found.append(f"{file.name}: a log-probability is {worst:.1e} from what its weights give, above {limit:g}")
        gap = f", log-probabilities of {compared} within {worst:.1e}" if compared else ", no weights for them on disk"
        print(f"{file.name}: {len(episodes)} episodes, {calls} calls{gap}; {len(found)} faults")
        faults += found
    return faults


def main(argv: Sequence[str] | None = None) -> None:
    """The command line. Exit code 1 where something does not fit, 2 where there is nothing to verify."""
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) != 1 or args[0] in ("-h", "--help"):
        print(__doc__ if args[:1] in (["-h"], ["--help"]) else "usage: python -m algos.verify RUN", file=sys.stderr)
        raise SystemExit(0 if args[:1] in (["-h"], ["--help"]) else 2)
    from algos.console import hush_libraries

    hush_libraries()
    escaping(sys.stdout)
    with exit_on_mistakes("python -m algos.verify"):
        faults = verify(Path(args[0]))
    for fault in faults[:SHOWN]:
        print(fault)
    if faults:
        print(f"{len(faults)} faults" + (f", the first {SHOWN} above" if len(faults) > SHOWN else ""))
        raise SystemExit(1)
    print("all episodes fit together")


if __name__ == "__main__":
    main()
