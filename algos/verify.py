"""Prove that a run's stored episodes are exact: ids, masks, texts and log-probabilities fit together.

    python -m algos.verify RUN

Every dialogue is played again from its texts (`algos.replay`). At each turn the prompt that environment and chat format
give must be the one that was stored, id for id, and the sampled ids must say the text that the partner saw; its ending,
grade and pay must be those that were stored. Rows joined from the calls must train exactly the sampled tokens.
Log-probabilities are computed anew for the episodes whose weights are on disk (the start, checkpoints that are still
there), and how many that are is said.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from algos.batch import make_batch
from algos.command_line import exit_on_mistakes
from algos.group_pay import pay_groups
from algos.recorded import Recorded, is_training
from algos.replay import faults_of_pay, replay, was_graded_for_good
from algos.scoring import Precision, Reference
from rema_agents.episodes import read_episodes
from rema_agents.types import Call, Episode
from rema_env.render import escaping
from rema_env.transcript import Ending

TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
"""Most difference [nats] between a stored log-probability and the one computed anew, by the dtype of computing."""

SHOWN = 10


def faults_of(file: Path, episodes: Sequence[Episode], recorded: Recorded) -> Iterator[str]:
    """What does not fit together in a file, each fault in one sentence; nothing where all does."""
    if not episodes:
        yield "it holds no episode"
    if [episode.dialogue for episode in episodes] != list(range(len(episodes))):
        yield "its dialogues are not numbered from 0 on, so some are missing or moved"
        return
    env = recorded.env(file)
    replayed = [replay(episode, env, recorded) for episode in episodes]
    env.close()
    told = [found.episode for found in replayed]
    if is_training(file):
        told = pay_groups(told, recorded.group_rewards)
    for stored, found, paid in zip(episodes, replayed, told, strict=True):
        faults = (*found.faults, *_faults_of_branch(stored, episodes), *faults_of_pay(stored, paid))
        yield from (f"dialogue {stored.dialogue}: {fault}" for fault in faults)
    yield from _faults_of_versions(file, episodes, recorded)


def _faults_of_branch(episode: Episode, episodes: Sequence[Episode]) -> Iterator[str]:
    """A branch begins as its stem does, whose calls those turns are."""
    if (stem := episode.info.get("branch_of")) is None:
        return
    turns = int(episode.info.get("branch_turn", 0))
    begins = (episode.problem, episode.transcript.turns[:turns])
    if not any(e.dialogue == stem and (e.problem, e.transcript.turns[:turns]) == begins for e in episodes):
        yield f"it is stored as a branch of dialogue {stem}, which does not begin so"


def _faults_of_versions(file: Path, episodes: Sequence[Episode], recorded: Recorded) -> Iterator[str]:
    """What a policy says in one play comes from one set of weights, there by then; a script's is number -1."""
    last, versions = recorded.last_version(file), defaultdict[str, set[int]](set)
    for episode in episodes:
        for call in episode.calls:
            versions[recorded.policy_of.get(call.agent, call.agent)].add(call.completion.weight_version)
    for name, found in versions.items():
        if len(found) > 1 or not all(-1 <= version <= last for version in found):
            named = ", ".join(map(str, sorted(found)))
            yield f"calls of {name} come from weights {named}, expected one number from 0 to {last}"


def logp_gaps(episodes: Sequence[Episode], recorded: Recorded, temperature: float) -> tuple[int, int, float]:
    """Compare stored with recomputed log-probabilities, call by call.

    Returns:
        calls compared, calls in all, and the largest difference [nats].
    """
    precision = Precision.here(recorded.config.model.bf16)
    by_weights: dict[tuple[str, int], list[Episode]] = defaultdict(list)
    for episode in episodes:
        for call in episode.calls:
            key = (recorded.policy_of.get(call.agent, call.agent), call.completion.weight_version)
            if len(call.completion.logps) == len(call.completion.token_ids):
                by_weights[key].append(_alone(episode, call))
    compared, worst = 0, 0.0
    for key, folder in recorded.weights().items():
        if not by_weights[key]:
            continue
        reference = Reference(folder, precision, temperature=temperature or 1.0, micro_batch_tokens=4096)
        batch = make_batch(by_weights[key], tuple(recorded.policy_of))
        gap_N = (reference.logp(batch) - batch.sampled_logp_BT)[batch.trained_BT].abs()
        compared, worst = compared + len(by_weights[key]), max(worst, float(gap_N.nan_to_num(math.inf).max()))
    return compared, sum(len(e.calls) for e in episodes), worst


def _alone(episode: Episode, call: Call) -> Episode:
    """The episode with one of its calls, since calls of one episode may come from different weights.

    It counts as finished: a batch leaves those out that were aborted.
    """
    rewards = dict.fromkeys({call.agent, *episode.rewards}, 0.0)
    transcript = episode.transcript.ended(Ending.FINISHED)
    return Episode(episode.problem, transcript, (call,), rewards, group=episode.group, dialogue=episode.dialogue)


def verify(path: Path) -> list[str]:
    """Verify all stored episodes of a run; prints a line for each file and returns the faults.

    Raises:
        ValueError: the folder holds no run, or no episodes.
    """
    recorded = Recorded.read(path)
    return [f"{file.name}: {fault}" for file in recorded.files() for fault in _verified(file, recorded)]


def _verified(file: Path, recorded: Recorded) -> list[str]:
    """The faults of one file, whose line is printed."""
    episodes = list(read_episodes(file))
    found = list(faults_of(file, episodes, recorded))
    temperature = recorded.temperature if is_training(file) else recorded.eval_temperature
    compared, calls, worst = logp_gaps(episodes, recorded, temperature)
    limit = TOLERANCE["bfloat16" if Precision.here(recorded.config.model.bf16).bf16 else "float32"]
    if compared and worst > limit:
        found.append(f"a log-probability is {worst:.1e} from what its weights give, above {limit:g}")
    gap = f", log-probabilities of {compared} within {worst:.1e}" if compared else ", no weights for them on disk"
    failed = sum(not was_graded_for_good(episode, episode) for episode in episodes)
    ungraded = f", {failed} that no grader could grade, whose pay is not compared" if failed else ""
    print(f"{file.name}: {len(episodes)} episodes, {calls} calls{gap}{ungraded}; {len(found)} faults")
    return found


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
