"""What the learner says about sampled tokens, against the sampler and against tables of logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MixtralConfig,
    MixtralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
)

from algos.algorithm import Out
from algos.batch import Batch, make_batch
from algos.config import LearnerConfig
from algos.head import token_logps
from algos.learner import Learner
from algos.scoring import Precision, Scorer, load_model, score
from rema_agents.draws import pick
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Problem, Transcript

CPU = Precision(torch.device("cpu"), torch.float32)


def said(*rows: tuple[int, ...]) -> Batch:
    """Rows of ids; the first of each is the prompt, the rest was sampled."""
    problem = Problem("p", "q", "a")
    episodes = [
        Episode(
            problem,
            Transcript(problem, (), Ending.FINISHED),
            (Call("meta_0", 0, row[:1], Completion(row[1:], (0.0,) * (len(row) - 1), Finish.STOP)),),
            {"meta_0": 0.0},
        )
        for row in rows
    ]
    return make_batch(episodes, ["meta_0"])


def test_a_token_is_scored_by_the_logits_in_front_of_it_and_the_first_by_none() -> None:
    table_TV = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, -1.0], [9.0, 9.0, -9.0]])

    def forward(ids_BT: Tensor, before_BT: Tensor, token_N: Tensor, temperature: float, *_: Any) -> Any:
        logp_NV = torch.log_softmax(table_TV[None].expand(len(ids_BT), -1, -1)[before_BT] / temperature, -1)
        return logp_NV.gather(1, token_N[:, None])[:, 0], None, None

    logp_BT = score(forward, said((0, 1, 2)), CPU.device, temperature=1.0).logp_BT
    logp_TV = torch.log_softmax(table_TV, -1)
    assert logp_BT.tolist() == [[0.0, float(logp_TV[0, 1]), float(logp_TV[1, 2])]]


def test_sampler_and_learner_divide_by_the_same_temperature() -> None:
    logits_V = torch.tensor([2.0, 0.0, -1.0])
    cumulative_V = torch.softmax(logits_V / 0.6, -1).double().cumsum(0)
    inside_V = cumulative_V - torch.softmax(logits_V / 0.6, -1).double() / 2  # a draw that falls on each token
    token_N, sampled_N = pick(logits_V.expand(3, 3), torch.full((3,), 0.6), inside_V)
    assert token_N.tolist() == [0, 1, 2]
    learnt_N, cold_N = (
        token_logps(torch.ones(3, 1), logits_V[:, None], None, token_N, temperature=t, entropy=False)[0]
        for t in (0.6, 1.0)
    )
    assert torch.exp(learnt_N - sampled_N).tolist() == pytest.approx([1.0] * 3, rel=1e-6)
    assert torch.exp(cold_N - sampled_N).tolist() == pytest.approx([0.8796, 3.34, 6.50], rel=2e-3)  # it can fail


def gpt2(**changes: float) -> PreTrainedModel:
    shape: dict[str, Any] = {"vocab_size": 64, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0, **changes))


def test_a_row_padded_by_six_scores_as_it_does_alone_where_positions_are_absolute() -> None:
    torch.manual_seed(0)
    short, long = (3, 4, 5), (7, 8, 9, 10, 11, 12, 13, 14, 15)
    scorer = Scorer(gpt2(initializer_range=0.3).eval())
    both, alone = (score(scorer, said(*rows), CPU.device, temperature=1.0) for rows in ((short, long), (short,)))
    assert both.logp_BT.shape[1] - alone.logp_BT.shape[1] == 6
    assert both.logp_BT[0, :3].tolist() == pytest.approx(alone.logp_BT[0].tolist(), abs=1e-6)
    assert both.logp_BT[0, 3:].tolist() == [0.0] * 6


SMALL: dict[str, Any] = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
NOISY: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2": lambda: gpt2(resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(**SMALL, ffn_dim=32, max_position_embeddings=64, word_embed_proj_dim=32, dropout=0.1, layerdrop=0.1)
    ),
    "bloom": lambda: BloomForCausalLM(BloomConfig(**SMALL, hidden_dropout=0.1, attention_dropout=0.1)),
    "falcon": lambda: FalconForCausalLM(FalconConfig(**SMALL, hidden_dropout=0.1, attention_dropout=0.1)),
    "mixtral": lambda: MixtralForCausalLM(
        MixtralConfig(
            **SMALL, num_key_value_heads=2, intermediate_size=32, num_local_experts=2,
            attention_dropout=0.1, router_jitter_noise=0.1,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", NOISY.values(), ids=NOISY)
def test_training_mode_adds_no_noise_wherever_an_architecture_keeps_its_rates(
    make: Callable[[], PreTrainedModel], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    make().save_pretrained(tmp_path)
    model = load_model(str(tmp_path), CPU, gradient_checkpointing=True)
    ids = torch.arange(2, 40)[None]
    with torch.no_grad():
        training, evaluating = model.train()(input_ids=ids).logits, model.eval()(input_ids=ids).logits
    assert torch.equal(training, evaluating)


@pytest.mark.parametrize("recompute", [False, True])
def test_the_first_ratio_is_exactly_one_though_the_model_comes_with_dropout(recompute: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    gpt2(resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, initializer_range=0.3).save_pretrained(tmp_path)
    learner = Learner(str(tmp_path), LearnerConfig(gradient_checkpointing=recompute), CPU, temperature=0.7)
    batch = said((1, 2, 3, 4), (5, 6, 7, 8, 9, 10))
    batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
    ratios: list[float] = []

    def loss(out: Out, micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        ratio_BT = torch.exp(out.logp_BT - micro.old_logp_BT)
        ratios.extend(ratio_BT[micro.trained_BT].tolist())
        return ratio_BT.sum(), {}

    learner.update(batch, loss)
    assert ratios == [1.0] * 8
    learner.update(batch, loss)
    assert not all(math.isclose(ratio, 1.0, rel_tol=1e-6) for ratio in ratios[8:]), "the weights have moved since"
