"""Draws are a function of seed, dialogue, call and position; a pick inverts the cumulative distribution."""

from __future__ import annotations

import numpy as np
import torch

from rema_agents.draws import pick, stream_keys, uniforms


def test_a_draw_depends_on_seed_dialogue_call_and_position_alone() -> None:
    keys = stream_keys([1, 1, 1, 2], [0, 0, 1, 0], [0, 1, 0, 0])
    assert len(set(keys.tolist())) == 4
    alone = stream_keys([1], [1], [0])
    assert alone[0] == keys[2]
    at = uniforms(keys, np.array([5, 6, 7, 8]))
    assert uniforms(alone, np.array([7]))[0] == at[2]
    assert uniforms(alone, np.array([8]))[0] != at[2]


def test_draws_are_even_and_unrelated() -> None:
    keys = stream_keys([3] * 200, range(200), [0] * 200)
    drawn = np.stack([uniforms(keys, np.full(200, t)) for t in range(100)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    expected = drawn.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8, "chi-squared of 19 degrees of freedom, p = 0.001"
    for one, next_one in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:])):
        assert abs(np.corrcoef(one.ravel(), next_one.ravel())[0, 1]) < 0.03


def test_a_large_or_negative_seed_is_a_seed_too() -> None:
    keys = stream_keys([-1, 2**70 + 5, 5], [0, 0, 0], [0, 0, 0])
    assert keys[0] != keys[1] == keys[2]


def test_a_pick_is_the_first_token_whose_cumulative_probability_exceeds_the_draw() -> None:
    logits = torch.log(torch.tensor([0.2, 0.0, 0.5, 0.3])).expand(6, 4)
    draws = torch.tensor([0.0, 0.199, 0.2001, 0.699, 0.7001, 1 - 2**-53], dtype=torch.float64)
    ids, logps = pick(logits, torch.ones(6), draws)
    assert ids.tolist() == [0, 0, 2, 2, 3, 3]
    assert torch.allclose(logps.exp(), torch.tensor([0.2, 0.2, 0.5, 0.5, 0.3, 0.3]))


def test_the_temperature_divides_the_logits() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0]])
    ids, logps = pick(logits, torch.tensor([0.6]), torch.tensor([0.0], dtype=torch.float64))
    assert ids.tolist() == [0]
    assert logps[0].item() == torch.log_softmax(logits[0] / 0.6, -1)[0].item()


def test_temperature_0_takes_the_likeliest_token_whatever_the_draw() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0]]).expand(3, 3)
    ids, logps = pick(logits, torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 0.999, 0.0], dtype=torch.float64))
    assert ids.tolist() == [1, 1, 0]
    assert torch.allclose(logps[:2], torch.log_softmax(logits[0], -1)[1])
