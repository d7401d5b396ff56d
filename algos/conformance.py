"""What an algorithm must do to be trained with, as checks that anyone can run on theirs.

    python -m algos.conformance package.module        a module with `algorithm(config)` and `Config`, as algos.grpo has

or, in a test of yours, `check(algorithm)`. Everything runs on a game small enough to enumerate, in float64, in seconds.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import Tensor

from algos.algorithm import Algorithm, advantages_of, as_kept, loss_of
from algos.batch import Batch
from algos.command_line import exit_on_mistakes
from algos.exact import AGENTS, Game, Table, expected_gradient, policy_gradient, prepared

TOLERANCE = 1e-6
CLIMBING = 1e-3  # the least cosine that is told from none


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

    @property
    def fault(self) -> str:
        """What to say where it does not hold."""
        return f"{self.said} (off by {self.distance:.2g})" if math.isfinite(self.distance) else self.said


def check(algorithm: Algorithm, *, factor: float | None = 1.0, group_size: int = 2) -> None:
    """All checks. Raises AssertionError that lists those that fail.

    Args:
        factor: the expected gradient is this times the policy gradient, e.g. 1 - 1/G for a group mean with the own
            sample; None leaves the exact gradient out, for an algorithm whose stated objective is another one.
        group_size: G; the bias of many algorithms depends on it.
    """
    findings = examine(algorithm, factor=factor, group_size=group_size)
    failed = [f"{f.name}: {f.fault}" for f in findings if not f.holds]
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
    got = expected_gradient(plain, old, reference=_start(algorithm, old), group_size=group_size) * len(AGENTS)
    wanted = policy_gradient(old)
    slope, cosine = float(got @ wanted / (wanted @ wanted)), _cosine(got, wanted)
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
    clean_BT, clean = _loss(algorithm, batch, policy)
    dirty_BT, dirty = _loss(algorithm, batch.with_tensors(**spoilt), policy)
    outside = float(dirty_BT[~batch.trained_BT].abs().max())
    distance = _worst(abs(clean["loss"] - dirty["loss"]), _far(dirty_BT, clean_BT), outside)
    return Finding("mask", distance, "loss or gradient depends on tokens that were not sampled")


def split(algorithm: Algorithm) -> Finding:
    """Loss, gradient and scalars are the same however the minibatch is cut into micro-batches."""
    batch, policy = _step(algorithm)
    whole_BT, whole = _loss(algorithm, batch, policy)
    far: dict[str, float] = {}
    for size in (1, 3):
        gathered_BT, added = torch.zeros_like(whole_BT), Counter[str]()
        for part in torch.unique(batch.trajectory_B).split(size):
            rows = torch.nonzero(torch.isin(batch.trajectory_B, part)).flatten()
            grad_BT, sums = _loss(algorithm, batch.rows(rows), policy)
            gathered_BT[rows, : grad_BT.shape[1]] += grad_BT
            added.update(sums)
        here = {name: abs(whole.get(name, 0.0) - added[name]) for name in whole.keys() | added.keys()}
        far |= {f"{name} (in parts of {size}": _worst(off) for name, off in here.items()}
        far[f"gradient (in parts of {size}"] = _worst(_far(gathered_BT, whole_BT))
    worst = max(far, key=far.__getitem__)
    return Finding("split", far[worst], f"{worst} trajectories) is not the sum over the parts")


def shares(algorithm: Algorithm) -> Finding:
    """The loss is weighted by the shares: with each of them three times as large it is three times as large."""
    batch, policy = _step(algorithm)
    once_BT, once = _loss(algorithm, batch, policy)
    thrice_BT, thrice = _loss(algorithm, batch.with_tensors(share_BT=3 * batch.share_BT), policy)
    distance = _worst(abs(thrice["loss"] - 3 * once["loss"]), _far(thrice_BT, 3 * once_BT))
    return Finding("shares", distance, "the loss is not a sum of terms weighted by share_BT")


def rows(algorithm: Algorithm) -> Finding:
    """The same calls kept as one row or as several give the same gradient."""
    joined, policy = _step(algorithm)
    parted, _ = _step(algorithm, split_rows=True)
    gradients = []
    for batch in (joined, parted):
        value, _ = loss_of(algorithm, policy.say(batch), batch)
        gradients.append(policy.gradient(value))
    return Finding("rows", _far(gradients[1], gradients[0]), "a trajectory in several rows has another gradient")


def agents(algorithm: Algorithm) -> Finding:
    """The order in which agents and trajectories stand in a batch does not matter."""
    by_context = []
    for order in (AGENTS, AGENTS[::-1]):
        old = Table(Game(agents=order), seed=1)
        got = expected_gradient(algorithm, old, reference=_start(algorithm, old))
        by_context.append(dict(zip(old.game.contexts, got.reshape(-1, 2), strict=True)))
    first, other = (torch.cat([found[context] for context in by_context[0]]) for found in by_context)
    return Finding("agents", _far(other, first), "the order of the agents changes the gradient")


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
    reward_S, carry = batch.reward_S.clone(), as_kept(algorithm.carry)
    first, again = (_advantages(algorithm, batch) for _ in range(2))
    _, after = advantages_of(algorithm, batch, algorithm.carry)
    try:
        restored = as_kept(after) == after and carry == algorithm.carry
    except ValueError as error:
        return Finding("pure", math.inf, str(error))
    same = all(torch.equal(before[name], tensor) for name, tensor in batch.more.items())
    untouched = same and restored and torch.equal(reward_S, batch.reward_S)
    distance = float((first - again).abs().max()) if untouched else math.inf
    return Finding("pure", distance, "`advantages` changes its arguments, or its carry is not made of JSON values")


def finite(algorithm: Algorithm) -> Finding:
    """Advantages, loss, gradient and scalars are numbers, also where all of a group are paid the same."""
    wrong = []
    for what, alike in {"": False, " where all are paid the same": True}.items():
        each, policy = _step(algorithm, alike=alike)
        grad_BT, sums = _loss(algorithm, each, policy)
        found = {"advantages": _advantages(algorithm, each), "gradient": grad_BT, **sums}
        wrong += [f"{name}{what}" for name, got in found.items() if not torch.as_tensor(got).isfinite().all()]
    return Finding("finite", math.inf if wrong else 0.0, f"not finite: {', '.join(wrong)}")


def uphill(algorithm: Algorithm) -> Finding:
    """On-policy, each agent's expected step climbs its own pay: it is within 90 degrees of the policy gradient."""
    old = Table(Game(rounds=1), seed=1)
    old.value_C = torch.zeros_like(old.value_C)  # a critic that knows nothing misleads nobody
    got = expected_gradient(algorithm, old, reference=_start(algorithm, old))
    wanted = {agent: policy_gradient(Table(Game(rounds=1, agents=(agent,)), seed=1)) for agent in AGENTS}
    cosine = {agent: _cosine(got[own != 0], own[own != 0]) for agent, own in wanted.items()}
    said = ", ".join(f"{value:.3f} for {agent}" for agent, value in cosine.items())
    climbs = all(value > CLIMBING for value in cosine.values())
    return Finding("uphill", 0.0 if climbs else math.inf, f"the cosine with the policy gradient is {said}")


CHECKS: Mapping[str, Callable[[Algorithm], Finding]] = {
    "finite": finite,
    "uphill": uphill,
    "mask": mask,
    "split": split,
    "shares": shares,
    "rows": rows,
    "agents": agents,
    "freezing": freezing,
    "pure": pure,
}


def _step(algorithm: Algorithm, *, split_rows: bool = False, alike: bool = False) -> tuple[Batch, Table]:
    """One step of three groups off-policy, and the policy whose loss it is; `alike`: every episode pays the same."""
    game = Game()
    old = Table(game, seed=1)
    e = game.episodes
    groups = [[e[0], e[7], e[13]], [e[2], e[20], e[2]], [e[5], e[11], e[25]]]
    batch = game.batch(groups, split_rows=split_rows)
    if alike:
        batch = replace(batch, reward_S=torch.ones_like(batch.reward_S))
    reference = Table(game, seed=3) if "ref_logp" in algorithm.needs else None
    policy = Table(game, seed=2, scale=0.3, near=old)
    return prepared(algorithm, batch, [len(batch.reward_S)], [1.0], old, reference), policy


def _start(algorithm: Algorithm, old: Table) -> Table | None:
    """The reference at the start of training, where there is no KL."""
    return old if "ref_logp" in algorithm.needs else None


def _advantages(algorithm: Algorithm, batch: Batch) -> Tensor:
    paid, _ = advantages_of(algorithm, batch, algorithm.carry)
    return torch.where(batch.trained_BT, paid["adv_BT"], 0.0)


def _loss(algorithm: Algorithm, batch: Batch, policy: Table) -> tuple[Tensor, dict[str, float]]:
    """The loss's derivative by the log-probabilities, and its sums: `loss` and the scalars.

    The log-probabilities of tokens that were not sampled are spoilt by a large number.
    """
    out = policy.say(batch)
    logp_BT = torch.where(batch.trained_BT, out.logp_BT.detach(), torch.full_like(out.logp_BT, -3.0)).requires_grad_()
    entropy_BT = None if out.entropy_BT is None else out.entropy_BT.detach()
    value, scalars = loss_of(algorithm, replace(out, logp_BT=logp_BT, entropy_BT=entropy_BT), batch)
    (grad_BT,) = torch.autograd.grad(value, logp_BT, materialize_grads=True)
    return grad_BT, {name: float(sum_) for name, sum_ in {**scalars, "loss": value.detach()}.items()}


def _far(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).norm() / wanted.norm().clamp(min=1e-12))


def _cosine(got: Tensor, wanted: Tensor) -> float:
    """0 where one of them is no direction."""
    return float(got @ wanted / (got.norm() * wanted.norm()).clamp(min=1e-12))


def _worst(*distances: float) -> float:
    """The largest; what is no number is the worst of all."""
    return max(math.inf if math.isnan(distance) else distance for distance in distances)


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
        print(f"{finding.name:<16}{'holds' if finding.holds else f'FAILS: {finding.fault}'}")
    print(f"{'exact gradient':<16}{exact_gradient(algorithm).said.partition(';')[0]}")
    return 0 if all(finding.holds for finding in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
