"""Speed of sampling whole dialogues: no barrier between turns, prefixes kept across turns, against plain `generate`.

    python -m benchmarks.play_speed [--model FOLDER] [--only vllm|hf] [--seed N]

Three figures, in the JSON object of the last line:

async_over_barrier  tokens a second of 64 dialogues of 1 to 12 calls, lengths drawn lognormal, in vLLM; each dialogue at
                    its own pace, over all dialogues turn by turn together. `async_bound` is what the schedule allows
                    where a token step costs the same for any number of rows: steps with the barrier over steps without.
prefix_ratio        prompt tokens computed over those sent in 8 rounds of 64-token messages; 1 without a prefix cache.
hf_over_generate    tokens a second of the transformers sampler over one plain batched `generate` of the same lengths.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rema_agents.gate import Gate
from rema_agents.types import Sampler, SamplingParams

DIALOGUES = 64
LONGEST_CALL = 60
PROMPT = 24
ROUNDS_OF_64 = 8
LONGEST_CHAT = 1024
HF_ROWS, HF_PROMPT, HF_NEW = 128, 32, 48
REPEATS = 3


def draw_lengths(seed: int) -> list[list[int]]:
    """Tokens of each call of each dialogue: 1 to 12 calls, lengths lognormal with median 12."""
    rng = np.random.default_rng(seed)
    return [
        np.clip(rng.lognormal(np.log(12), 0.8, rng.integers(1, 13)), 1, LONGEST_CALL).astype(int).tolist()
        for _ in range(DIALOGUES)
    ]


def schedule_bound(lengths: Sequence[Sequence[int]]) -> float:
    """Token steps of the slowest call of each turn, summed, over those of the longest dialogue."""
    turns = max(map(len, lengths))
    barrier = sum(max(calls[k] for calls in lengths if k < len(calls)) for k in range(turns))
    return barrier / max(map(sum, lengths))


async def say(sampler: Sampler, gate: Gate, dialogue: int, prompt: list[int], tokens: int, vocabulary: int) -> None:
    """One call of so many tokens; the prompt grows by them and by two more, as a partner's words would."""
    params = SamplingParams(tokens, seed=dialogue)
    completion = await sampler.sample(prompt, params, dialogue=dialogue, gate=gate)
    prompt += [*completion.token_ids, (dialogue + len(prompt)) % vocabulary, 1]


def prompts(vocabulary: int, seed: int, rows: int = DIALOGUES, length: int = PROMPT) -> list[list[int]]:
    """Different prompts of one length."""
    return np.random.default_rng(seed).integers(1, vocabulary, (rows, length)).tolist()


async def at_their_own_pace(sampler: Sampler, lengths: Sequence[Sequence[int]], vocabulary: int, seed: int) -> None:
    """Every dialogue makes its next call as soon as its last is answered."""
    gate = Gate()

    async def one(dialogue: int, prompt: list[int]) -> None:
        for tokens in lengths[dialogue]:
            await say(sampler, gate, dialogue, prompt, tokens, vocabulary)

    await asyncio.gather(*(one(n, prompt) for n, prompt in enumerate(prompts(vocabulary, seed))))


async def turn_by_turn(sampler: Sampler, lengths: Sequence[Sequence[int]], vocabulary: int, seed: int) -> None:
    """No dialogue makes its next call before all are answered."""
    gate, chats = Gate(), prompts(vocabulary, seed)
    for k in range(max(map(len, lengths))):
        going = [n for n, calls in enumerate(lengths) if k < len(calls)]
        await asyncio.gather(*(say(sampler, gate, n, chats[n], lengths[n][k], vocabulary) for n in going))


def seconds(run: Callable[[], Any]) -> float:
    """How long a call takes [s]."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure_vllm(folder: str, seed: int) -> dict[str, float]:
    """The figures of vLLM; both schedules alternate, the best time of each counts."""
    from rema_agents.vllm import VLLMSampler

    sampler = VLLMSampler(folder, max_model_len=LONGEST_CHAT, max_num_seqs=DIALOGUES)
    vocabulary, lengths = vocabulary_of(folder), draw_lengths(seed)
    tokens = sum(map(sum, lengths))
    asyncio.run(turn_by_turn(sampler, [[4]] * DIALOGUES, vocabulary, seed))
    times: dict[Any, list[float]] = {at_their_own_pace: [], turn_by_turn: []}
    for repeat in range(REPEATS):
        for schedule, measured in times.items():
            chats = seed + 1 + 2 * repeat + (schedule is turn_by_turn)  # others each time, so no prefix is found
            measured.append(seconds(partial(asyncio.run, schedule(sampler, lengths, vocabulary, chats))))
    own, together = (tokens / min(measured) for measured in times.values())
    ratio = prefix_ratio(sampler, vocabulary, seed)
    sampler.close()
    return {
        "async_tokens_per_second": own,
        "barrier_tokens_per_second": together,
        "async_over_barrier": own / together,
        "async_bound": schedule_bound(lengths),
        "prefix_ratio": ratio,
    }


def prefix_ratio(sampler: Any, vocabulary: int, seed: int) -> float:
    """Prompt tokens computed, of those sent, in dialogues of two agents that say 64 tokens in turn."""

    async def dialogue(number: int, gate: Gate) -> None:
        own = [list(row) for row in prompts(vocabulary, seed + 1000 + number, rows=2)]
        for turn in range(2 * ROUNDS_OF_64):
            mine, other = own[turn % 2], own[1 - turn % 2]
            params = SamplingParams(min(64, LONGEST_CHAT - len(mine)))
            said = await sampler.sample(mine, params, dialogue=number, gate=gate)
            mine += said.token_ids
            other += said.token_ids

    async def scene() -> None:
        gate = Gate()
        await asyncio.gather(*(dialogue(n, gate) for n in range(16)))

    sent, cached = sampler.prompt_tokens, sampler.cached_tokens
    asyncio.run(scene())
    sent, cached = sampler.prompt_tokens - sent, sampler.cached_tokens - cached
    return (sent - cached) / sent


def measure_hf(folder: str, seed: int) -> dict[str, float]:
    """The transformers sampler and `generate` in turn; the best time of each counts."""
    from transformers import AutoModelForCausalLM

    from rema_agents.hf import HFSampler

    sampler = HFSampler.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = prompts(vocabulary_of(folder), seed, HF_ROWS, HF_PROMPT)
    params = SamplingParams(HF_NEW, seed=seed)

    async def calls() -> None:
        gate = Gate()
        await asyncio.gather(*(sampler.sample(row, params, dialogue=n, gate=gate) for n, row in enumerate(rows)))

    @torch.inference_mode()
    def generate() -> None:
        ids = torch.tensor(rows)
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, eos_token_id=None, pad_token_id=0,
            max_new_tokens=HF_NEW,
        )  # fmt: skip
        assert made.shape[1] == HF_PROMPT + HF_NEW

    times: dict[str, list[float]] = {"hf": [], "generate": []}
    for _ in range(REPEATS + 1):
        times["hf"].append(seconds(lambda: asyncio.run(calls())))
        times["generate"].append(seconds(generate))
    ours, plain = (HF_ROWS * HF_NEW / min(measured[1:]) for measured in times.values())
    return {"hf_tokens_per_second": ours, "generate_tokens_per_second": plain, "hf_over_generate": ours / plain}


def vocabulary_of(folder: str) -> int:
    """How many ids the model knows."""
    from transformers import AutoConfig

    return int(AutoConfig.from_pretrained(folder).get_text_config().vocab_size)


def main() -> None:
    """Measure, print a line for each figure, then all as one JSON object."""
    from rema_agents.tiny import MODEL_FOLDER

    parser = argparse.ArgumentParser("python -m benchmarks.play_speed", description=__doc__)
    parser.add_argument("--model", default=str(MODEL_FOLDER), help="a model folder (the embedded model)")
    parser.add_argument("--only", choices=["vllm", "hf"], help="leave the other out")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures: dict[str, float] = {}
    if arguments.only != "vllm":
        figures |= measure_hf(arguments.model, arguments.seed)
    if arguments.only != "hf":
        figures |= measure_vllm(arguments.model, arguments.seed)
    for name, value in figures.items():
        print(f"{name:28} {value:10.3f}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
