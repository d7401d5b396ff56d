"""The step with the loop's own parts."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.learn.work import Work, reward_of


def step(work: Work, folder: Path) -> float:
    """Its CPU seconds."""
    import torch

    from algos.config import LearnerConfig
    from algos.functional import group_advantages, token_shares
    from algos.grpo import GRPOConfig
    from algos.grpo import loss as grpo_loss
    from algos.learner import Learner
    from algos.metrics import logp_gap
    from algos.scoring import Precision
    from rema_agents.hf import HFSampler

    precision = Precision(torch.device("cpu"), torch.float32)
    sampler = HFSampler.from_pretrained(folder, dtype=torch.float32, device="cpu")
    config = LearnerConfig(learning_rate=1e-5, gradient_checkpointing=False, micro_batch_tokens=work.micro_batch_tokens)
    learner = Learner(str(folder), config, precision)
    start = time.process_time()
    batch = _sampled(work, sampler)
    batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
    assert logp_gap(batch)["sampling/logp_gap_max"] < 1e-3
    adv_S = group_advantages(batch.reward_S, batch.group_S)
    batch = batch.with_tensors(
        adv_BT=adv_S[batch.trajectory_B][:, None].expand_as(batch.turn_BT),
        share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float(),
    )
    learner.update(batch, partial(grpo_loss, config=GRPOConfig()))
    sampler.update_weights(learner.named_weights(), 1)
    return time.process_time() - start


def _sampled(work: Work, sampler: Any) -> Any:
    """The step's completions, each an episode of one call, as a batch."""
    from algos.batch import make_batch
    from rema_agents.types import Call, Episode
    from rema_env.transcript import Ending, Problem, Transcript

    episodes = []
    for number, (ids, completion) in enumerate(zip(work.asked(), asyncio.run(_said(work, sampler)), strict=True)):
        group = number // work.completions
        problem = Problem(str(group), "", "")
        call = Call("meta_0", 0, tuple(ids), completion)
        paid = {"meta_0": reward_of(completion.token_ids)}
        episodes.append(Episode(problem, Transcript(problem, (), Ending.FINISHED), (call,), paid, group=group))
    return make_batch(episodes, ["meta_0"])


async def _said(work: Work, sampler: Any) -> list[Any]:
    from rema_agents.gate import Gate
    from rema_agents.types import SamplingParams

    gate, params = Gate(), SamplingParams(work.length, 1.0)
    calls = (sampler.sample(ids, params, dialogue=number, gate=gate) for number, ids in enumerate(work.asked()))
    return list(await asyncio.gather(*calls))
