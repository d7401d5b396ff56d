"""What an algorithm must do to be trained with, as checks that anyone can run on theirs.

    python -m algos.conformance package.module        a module with `algorithm(config)` and `Config`, as algos.grpo has

or, in a test of yours, `check(algorithm)`. Everything runs on a game small enough to enumerate, in float64, in seconds.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import Tensor

from algos.algorithm import Algorithm, named
from algos.batch import Batch
from algos.command_line import exit_on_mistakes
from algos.exact import AGENTS, Game, Table, expected_gradient, policy_gradient, prepared

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        name: of the check.
        distance: relative L2 distance, or largest difference, between what is and what should be.
        said: what that means.
    """

    name: str
    distance: float
    said: str

    @property
    def holds(self) -> bool:
        """Whether it is within the tolerance."""
        return self.distance <= TOLERANCE


def check(algorithm: Algorithm, *, factor: float | None = 1.0, group_size: int = 2) -> None:
    """All checks. Raises AssertionError that lists those that fail.

    Args:
        factor: the expected gradient is this times the policy gradient, e.g. 1 - 1/G for a group mean with the own
            sample; None leaves the exact gradient out, for an algorithm whose stated objective is another one.
        group_size: G; the bias of many algorithms depends on it.
    """
    findings = examine(algorithm, factor=factor, group_size=group_size)
    failed = [f"{f.name}: {f.said} (off by {f.distance:.2g})" for f in findings if not f.holds]
    assert not failed, "the algorithm does not conform:\n" + "\n".join(failed)


def examine(algorithm: Algorithm, *, factor: float | None = 1.0, group_size: int = 2) -> list[Finding]:
    """What every check finds."""
    findings = [inspect(algorithm) for inspect in CHECKS.values()]
    if factor is not None:
        findings.insert(0, exact_gradient(algorithm, factor=factor, group_size=group_size))
    return findings


def exact_gradient(algorithm: Algorithm, *, factor: float = 1.0, group_size: int = 2) -> Finding:
    """On-policy, with every token weighing the same, the expected gradient is `factor` times the policy gradient."""
    old = Table(Game(rounds=2 if group_size <= 2 else 1), seed=1)
    plain = replace(algorithm, share="constant", share_length=1)
    reference = old if "ref_logp" in algorithm.needs else None  # no KL at the start of training
    got = expected_gradient(plain, old, reference=reference, group_size=group_size) * len(AGENTS)
    wanted = policy_gradient(old)
    slope = float(got @ wanted / (wanted @ wanted))
    cosine = float(got @ wanted / (got.norm() * wanted.norm()))
    said = f"it is {slope:.6f} times the policy gradient, cosine {cosine:.6f}; {factor:g} times is expected"
    return Finding("exact gradient", _far(got, factor * wanted), said)


def mask(algorithm: Algorithm) -> Finding:
    """Tokens that were not sampled have no part in loss or gradient, whatever stands there."""
    batch, policy = _step(algorithm)
    noise = torch.full(batch.turn_BT.shape, 17.0, dtype=torch.float64)
    spoilt = {
        name: torch.where(batch.trained_BT, tensor, noise)
        for name, tensor in batch.more.items()
        if name.endswith("_BT") and name != "share_BT"
    }
    clean, clean_BT = _loss(algorithm, batch, policy)
    dirty, dirty_BT = _loss(algorithm, batch.with_tensors(**spoilt), policy)
    outside = float(dirty_BT[~batch.trained_BT].abs().max())
    distance = max(abs(clean - dirty), _far(dirty_BT, clean_BT), outside)
    return Finding("mask", distance, "loss or gradient depends on tokens that were not sampled")


def split(algorithm: Algorithm) -> Finding:
    """Loss, gradient and scalars are the same however the minibatch is cut into micro-batches."""
    batch, policy = _step(algorithm)
    whole, whole_BT = _loss(algorithm, batch, policy)
    distance = 0.0
    for size in (1, 3):
        total, gathered_BT = 0.0, torch.zeros_like(whole_BT)
        trajectories = torch.unique(batch.trajectory_B).split(size)
        for part in trajectories:
            rows = torch.nonzero(torch.isin(batch.trajectory_B, part)).flatten()
            micro = batch.rows(rows)
            value, grad_BT = _loss(algorithm, micro, policy)
            total += value
            gathered_BT[rows, : grad_BT.shape[1]] += grad_BT
        distance = max(distance, abs(total - whole), _far(gathered_BT, whole_BT))
    return Finding("split", distance, "loss or gradient changes when the minibatch is split")


def rows(algorithm: Algorithm) -> Finding:
    """The same calls kept as one row or as several give the same gradient."""
    joined, policy = _step(algorithm)
    parted, _ = _step(algorithm, split_rows=True)
    gradients = []
    for batch in (joined, parted):
        value, _ = algorithm.loss(policy.say(batch), batch)
        gradients.append(policy.gradient(value))
    return Finding("rows", _far(gradients[1], gradients[0]), "a trajectory in several rows has another gradient")


def agents(algorithm: Algorithm) -> Finding:
    """The order in which agents and trajectories stand in a batch does not matter."""
    got = [
        expected_gradient(algorithm, Table(Game(agents=order), seed=1), reference=_reference(algorithm, order))
        for order in (AGENTS, AGENTS[::-1])
    ]
    by_context = [
        dict(zip(Game(agents=order).contexts, grad.reshape(-1, 2), strict=True))
        for order, grad in zip((AGENTS, AGENTS[::-1]), got, strict=True)
    ]
    other = torch.cat([by_context[1][context] for context in by_context[0]])
    return Finding("agents", _far(other, got[0]), "the order of the agents changes the gradient")


def freezing(algorithm: Algorithm) -> Finding:
    """What one agent is paid does not move the other: a partner that is frozen, or paid otherwise, changes nothing."""
    batch, _ = _step(algorithm)
    other_S = torch.where(batch.agent_S == 1, batch.reward_S * 3 - 5 + batch.episode_S, batch.reward_S)
    first, second = (_advantages(algorithm, changed) for changed in (batch, replace(batch, reward_S=other_S)))
    own_BT = (batch.agent_S == 0)[batch.trajectory_B, None] & batch.trained_BT
    distance = float((first - second)[own_BT].abs().max())
    return Finding("freezing", distance, "what the reasoner is paid changes the meta-thinker's advantages")


def pure(algorithm: Algorithm) -> Finding:
    """Called twice, `advantages` says the same; it writes into nothing; its carry goes into a checkpoint and back."""
    batch, _ = _step(algorithm)
    before = {name: tensor.clone() for name, tensor in batch.more.items()}
    reward_S, carry = batch.reward_S.clone(), json.dumps(algorithm.carry)
    first = _advantages(algorithm, batch)
    again = _advantages(algorithm, batch)
    _, after = algorithm.advantages(batch, algorithm.carry)
    restored = json.loads(json.dumps(after)) == after and json.dumps(algorithm.carry) == carry
    same = all(torch.equal(before[name], tensor) for name, tensor in batch.more.items())
    untouched = same and torch.equal(reward_S, batch.reward_S) and restored
    distance = float((first - again).abs().max()) if untouched else float("inf")
    return Finding("pure", distance, "`advantages` changes its arguments, or its carry is not made of JSON values")


CHECKS: Mapping[str, Callable[[Algorithm], Finding]] = {
    "mask": mask,
    "split": split,
    "rows": rows,
    "agents": agents,
    "freezing": freezing,
    "pure": pure,
}


def _step(algorithm: Algorithm, *, split_rows: bool = False) -> tuple[Batch, Table]:
    """One step of three groups off-policy, and the policy whose loss it is."""
    game = Game()
    old = Table(game, seed=1)
    e = game.episodes
    groups = [[e[0], e[7], e[13]], [e[2], e[20], e[2]], [e[5], e[11], e[25]]]
    batch = game.batch(groups, split_rows=split_rows)
    reference = Table(game, seed=3) if "ref_logp" in algorithm.needs else None
    sizes = [len(batch.reward_S)]
    return prepared(algorithm, batch, sizes, [1.0], old, reference), Table(game, seed=2, scale=0.3, near=old)


def _reference(algorithm: Algorithm, order: tuple[str, ...]) -> Table | None:
    return Table(Game(agents=order), seed=1) if "ref_logp" in algorithm.needs else None


def _advantages(algorithm: Algorithm, batch: Batch) -> Tensor:
    paid, _ = algorithm.advantages(batch, algorithm.carry)
    return torch.where(batch.trained_BT, named(paid, batch)["adv_BT"], 0.0)


def _loss(algorithm: Algorithm, batch: Batch, policy: Table) -> tuple[float, Tensor]:
    """The loss and its derivative by the log-probabilities; those of other tokens are spoilt by a large number."""
    out = policy.say(batch)
    logp_BT = torch.where(batch.trained_BT, out.logp_BT.detach(), torch.full_like(out.logp_BT, -3.0)).requires_grad_()
    value, _ = algorithm.loss(replace(out, logp_BT=logp_BT, entropy_BT=_detached(out.entropy_BT)), batch)
    (grad_BT,) = torch.autograd.grad(value, logp_BT)
    return float(value.detach()), grad_BT


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()


def _far(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).norm() / wanted.norm().clamp(min=1e-12))


def load(name: str) -> Algorithm:
    """The algorithm of a module (`algorithm(Config())`), named by its path or by an entry point of `rema.algos`."""
    modules = {entry.name: entry.module for entry in entry_points(group="rema.algos")}
    try:
        module: Any = importlib.import_module(modules.get(name, name))
    except ImportError as error:
        raise ValueError(f"{name}: {error}; installed algorithms: {', '.join(modules) or 'none'}") from None
    if not hasattr(module, "algorithm") or not hasattr(module, "Config"):
        raise ValueError(f"{module.__name__} has no `Config` and `algorithm(config)`")
    algorithm: Algorithm = module.algorithm(module.Config())
    return algorithm


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 1 where a check fails. The exact gradient is shown and left to the reader's judgement."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args in (["-h"], ["--help"]):
        print(f"usage: python -m algos.conformance MODULE\n\n{__doc__}")
        return 0
    with exit_on_mistakes("python -m algos.conformance"):
        if len(args) != 1 or args[0].startswith("-"):
            raise ValueError("name one module, e.g. algos.grpo, or an installed algorithm")
        algorithm = load(args[0])
        findings = examine(algorithm, factor=None)
    for finding in findings:
        print(f"{finding.name:<16}{'holds' if finding.holds else f'FAILS: {finding.said} ({finding.distance:.2g})'}")
    print(f"{'exact gradient':<16}{exact_gradient(algorithm).said.partition(';')[0]}")
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
