"""Log-probabilities in chunks are those of the full logits, with their gradients, for every architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, CohereConfig, Gemma2Config, GraniteConfig

from algos import head
from algos.batch import Batch
from algos.head import Shape, token_logps
from algos.scoring import Precision, Scorer, load_model, score

N, H, V = 23, 8, 50
CPU = Precision(torch.device("cpu"), torch.float32)


def full(
    hidden_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, token_N: Tensor, temperature: float, shape: Shape
) -> tuple[Tensor, Tensor]:
    z_NV = nn.functional.linear(hidden_NH, weight_VH, bias_V) * shape.scale
    z_NV = shape.cap * torch.tanh(z_NV / shape.cap) if shape.cap else z_NV
    logp_NV = torch.log_softmax(z_NV / temperature, -1)
    return logp_NV.gather(1, token_N[:, None])[:, 0], -(logp_NV.exp() * logp_NV).sum(-1)


@pytest.mark.parametrize("shape", [Shape(), Shape(scale=0.3), Shape(scale=2.0, cap=1.5)])
@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_values_and_gradients_are_those_of_full_logits(
    shape: Shape, entropy: bool, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "CHUNK_ELEMENTS", 5 * V)
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(N, H), torch.randn(V, H), torch.randn(V)
    token, by_logp, by_entropy = torch.randint(V, (N,)), torch.randn(N).double(), torch.randn(N).double()
    gradients = []
    for ours in (True, False):
        leaves = [leaf.double().requires_grad_(n == 0 or not frozen) for n, leaf in enumerate((hidden, weight, bias))]
        h, w, b = leaves
        if ours:
            logp, ent = token_logps(h, w, b, token, temperature=0.7, shape=shape, entropy=entropy)
            assert (ent is not None) == entropy
        else:
            logp, ent = full(h, w, b, token, 0.7, shape)
        value = (by_logp * logp).sum() + ((by_entropy * ent).sum() if entropy and ent is not None else 0)
        gradients.append([value.detach(), *torch.autograd.grad(value, leaves[: 1 if frozen else 3])])
    for got, expected in zip(*gradients, strict=True):
        assert torch.allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_no_chunk_holds_more_logits_than_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "CHUNK_ELEMENTS", 5 * V)
    seen: list[int] = []
    linear = nn.functional.linear

    def watched(*args: Any) -> Tensor:
        seen.append(linear(*args).numel())
        return linear(*args)

    monkeypatch.setattr(nn.functional, "linear", watched)
    hidden = torch.randn(N, H, requires_grad=True)
    logp, _ = token_logps(hidden, torch.randn(V, H, requires_grad=True), None, torch.randint(V, (N,)))
    logp.sum().backward()
    assert seen[:5] == [5 * V, 5 * V, 5 * V, 5 * V, 3 * V]  # forward, by tokens
    assert seen[5:] == [10 * N] * 5  # backward, for the head's own gradient, by slices of the vocabulary


def test_the_heads_gradient_in_16_bits_is_as_exact_in_many_chunks_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, width = 512, 16
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*size).bfloat16() for size in ((tokens, width), (V, width), (V,)))
    token, by_logp = torch.randint(V, (tokens,)), torch.randn(tokens)

    def gradients(dtype: torch.dtype, chunk: int) -> list[Tensor]:
        monkeypatch.setattr(head, "CHUNK_ELEMENTS", chunk)
        w, b = (leaf.to(dtype).requires_grad_() for leaf in (weight, bias))
        logp, _ = token_logps(hidden.to(dtype), w, b, token)
        return list(torch.autograd.grad((by_logp * logp).sum(), (w, b)))

    exact = gradients(torch.float64, tokens * V)
    one, many = (gradients(torch.bfloat16, chunk) for chunk in (tokens * V, tokens))
    for right, whole, chunked in zip(exact, one, many, strict=True):
        error, errors = (float((got.double() - right).norm() / right.norm()) for got in (whole, chunked))
        assert error < 5e-3
        assert errors == pytest.approx(error, rel=0.1)


def test_no_token_at_all_still_has_a_gradient() -> None:
    hidden, weight = torch.zeros(0, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    logp, _ = token_logps(hidden, weight, None, torch.zeros(0, dtype=torch.int64))
    logp.sum().backward()
    assert weight.grad is not None
    assert not weight.grad.any()


TINY: dict[str, Any] = {"vocab_size": V, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.5}
TINY |= {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}


def one_row() -> Batch:
    ids, turn = torch.arange(2, 14)[None], torch.tensor([[-1] * 4 + [0] * 3 + [-1] * 2 + [1] * 3])
    none = torch.zeros(1)
    length, first = torch.tensor([12]), torch.tensor([0])
    return Batch(ids, turn, torch.zeros(1, 12), length, first, none, first, first, first, ("meta_0",))


@pytest.mark.parametrize(
    "config",
    [
        Gemma2Config(**TINY, final_logit_softcapping=2.0, query_pre_attn_scalar=8),
        CohereConfig(**TINY, logit_scale=0.25),
        GraniteConfig(**TINY, logits_scaling=4.0),
    ],
    ids=lambda config: config.model_type,
)
def test_what_an_architecture_does_to_its_logits_is_respected(config: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    scorer = Scorer(load_model(str(tmp_path), CPU).eval())
    scorer.probe()
    assert scorer.chunked
    batch = one_row()
    own = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    with torch.no_grad():
        got = score(scorer, batch, CPU.device, temperature=0.7).logp_BT
        logp = torch.log_softmax(own(input_ids=batch.ids_BT).logits[0] / 0.7, -1)
    for t in torch.nonzero(batch.turn_BT[0] >= 0).flatten().tolist():
        assert float(got[0, t]) == pytest.approx(float(logp[t - 1, batch.ids_BT[0, t]]), abs=1e-4)


def test_an_architecture_that_is_not_known_falls_back_to_its_own_logits(embedded: Path) -> None:
    model: Any = load_model(str(embedded), CPU).eval()
    own_forward = type(model).forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        out = own_forward(model, *args, **kwargs)
        out.logits = out.logits.clamp(max=3.0)
        return out

    model.forward = forward
    scorer = Scorer(model)
    scorer.probe()
    assert not scorer.chunked
    batch = one_row()
    with torch.no_grad():
        got = score(scorer, batch, CPU.device, temperature=1.0).logp_BT
        logp = torch.log_softmax(forward(input_ids=batch.ids_BT).logits[0], -1)
    assert float(got[0, 4]) == pytest.approx(float(logp[3, batch.ids_BT[0, 4]]), abs=1e-4)
    assert AutoConfig.from_pretrained(embedded).model_type == "llama"
