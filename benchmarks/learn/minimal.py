"""The least that does the same step: one `generate`, micro-batches sorted by length, the head where it is needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.learn.work import Work, reward_of


def step(work: Work, folder: Path) -> float:
    """Its CPU seconds."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    start = time.process_time()
    prompts = work.asked()
    said_BT = _generated(work, model, prompts)
    reward = torch.tensor([reward_of(ids) for ids in said_BT.tolist()]).view(work.prompts, work.completions)
    adv_B = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)).flatten()
    rows = sorted(range(len(prompts)), key=lambda b: len(prompts[b]))
    size = max(1, work.micro_batch_tokens // (max(map(len, prompts)) + work.length))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        ids_BT, where_BT = _rows([prompts[b] for b in part], said_BT[part])
        hidden = model.model(input_ids=ids_BT).last_hidden_state[where_BT]
        logp = torch.log_softmax(model.lm_head(hidden), -1).gather(1, said_BT[part].flatten()[:, None])[:, 0]
        ratio = torch.exp(logp - logp.detach())
        loss = -(ratio * adv_B[part].repeat_interleave(work.length)).sum() / work.trained_tokens
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return time.process_time() - start


def _generated(work: Work, model: Any, prompts: Sequence[Sequence[int]]) -> Any:
    """The completions' ids, sampled in one batch."""
    import torch

    longest = max(map(len, prompts))
    left_BT = torch.tensor([[0] * (longest - len(ids)) + [*ids] for ids in prompts])
    mask_BT = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    length = {"max_new_tokens": work.length, "min_new_tokens": work.length}
    with torch.no_grad():
        return model.generate(left_BT, attention_mask=mask_BT, do_sample=True, top_k=0, **length)[:, longest:]


def _rows(prompts: Sequence[Sequence[int]], said_BT: Any) -> tuple[Any, Any]:
    """Prompts with what was said to them, padded on the right; and where what predicts the completions stands."""
    import torch

    length = said_BT.shape[1]
    width = max(map(len, prompts)) + length
    ids_BT = torch.zeros(len(prompts), width, dtype=torch.int64)
    where_BT = torch.zeros(len(prompts), width, dtype=torch.bool)
    for b, prompt in enumerate(prompts):
        n = len(prompt)
        ids_BT[b, : n + length] = torch.cat([torch.tensor(prompt), said_BT[b]])
        where_BT[b, n - 1 : n + length - 1] = True
    return ids_BT, where_BT
