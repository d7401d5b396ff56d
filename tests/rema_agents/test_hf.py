"""The transformers sampler: exact to the token, the same for a seed whatever the clock does, whatever the model."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.hf import HFSampler
from rema_agents.kv import RaggedCache
from rema_agents.play import play
from rema_agents.prefill import buckets
from rema_agents.seat import LMSeat
from rema_agents.types import Completion, Episode, SamplingParams
from rema_env.transcript import Finish, Problem
from tests.rema_agents import contract
from tests.rema_agents.contract import PROMPTS, TEMPERATURE, ask_all, forward_logps, params, random_llama
from tests.rema_agents.templates import tokenizer_of
from tests.rema_agents.test_play import PROBLEMS, Slow, Watched

SIZES: dict[str, int] = {"vocab_size": contract.VOCABULARY}
SMALL: dict[str, Any] = {
    **SIZES, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.3, "max_position_embeddings": 256,
}  # fmt: skip


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(**SIZES, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.3))


def mistral() -> PreTrainedModel:
    return MistralForCausalLM(MistralConfig(**SMALL, sliding_window=6))


def qwen3_sliding() -> PreTrainedModel:
    config = Qwen3Config(**SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=1)
    assert config.layer_types == ["full_attention", "sliding_attention"]
    return Qwen3ForCausalLM(config)


def eager() -> PreTrainedModel:
    model = random_llama(2, tied=True)
    model.set_attn_implementation("eager")
    return model


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": random_llama, "eager llama": eager, "gpt2": gpt2, "mistral": mistral, "qwen3": qwen3_sliding,
}  # fmt: skip


def seeded(make: Callable[[], PreTrainedModel]) -> PreTrainedModel:
    torch.manual_seed(0)
    return make().eval()


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_contract(check: Callable[[contract.Subject], None], model: Callable[[], PreTrainedModel]) -> None:
    if check is contract.new_weights_change_what_is_sampled_and_nothing_of_the_old_is_left:
        model = random_llama
    sampler = HFSampler(seeded(model), admit_every=2, max_rows=4)

    def publish(new: PreTrainedModel | None, version: int) -> None:
        sampler.update_weights([] if new is None else new.named_parameters(), version)

    check(contract.Subject(sampler, seeded(model), publish=publish))


Said = tuple[tuple[int, ...], Completion]
"""A prompt and what was sampled after it."""


async def converse(
    sampler: HFSampler, gate: Gate, dialogue: int, turns: int, p: SamplingParams, pause: Callable[[], float]
) -> list[Said]:
    """One dialogue of growing prompts: each is the one before, what was sampled, and two tokens more."""
    prompt, said = PROMPTS[dialogue % len(PROMPTS)], []
    try:
        for turn in range(turns):
            with gate.waiting():
                got = await sampler.sample(prompt, p, dialogue=dialogue, gate=gate)
            said.append((prompt, got))
            prompt = (*prompt, *got.token_ids, 50 + turn, 3)
            if (seconds := pause()) > 0:
                await asyncio.sleep(seconds)
    finally:
        gate.leave()
    return said


def conversations(
    sampler: HFSampler, dialogues: Sequence[int], turns: int = 4, pause: Callable[[], float] = lambda: 0.0
) -> list[list[Said]]:
    async def scene() -> list[list[Said]]:
        gate = Gate()
        for _ in dialogues:
            gate.enter()
        p = params(stop_token_ids=tuple(range(40, 64)))
        return await asyncio.gather(*(converse(sampler, gate, n, turns, p, pause) for n in dialogues))

    return asyncio.run(scene())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_keys_and_values_kept_across_turns_give_the_log_probabilities_of_a_full_forward(
    model: Callable[[], PreTrainedModel],
) -> None:
    sampler, plain = HFSampler(seeded(model), admit_every=2, max_rows=5), seeded(model)
    for said in conversations(sampler, range(9)):
        for prompt, got in said:
            expected = forward_logps(plain, prompt, got.token_ids, TEMPERATURE)
            assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4


def prefilled(sampler: HFSampler, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The list to which each forward over more than one position adds its tokens, padding included."""
    tokens: list[int] = []
    logits = sampler._decoder.logits

    def counted(ids: Any, positions: Any, cache: Any) -> Any:
        if positions.shape[1] > 1:
            tokens.append(positions.size)
        return logits(ids, positions, cache)

    monkeypatch.setattr(sampler._decoder, "logits", counted)
    return tokens


def test_only_what_is_new_of_a_growing_prompt_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = HFSampler(random_llama())
    tokens = prefilled(sampler, monkeypatch)
    (said,) = conversations(sampler, [3], turns=4)
    assert tokens == [len(PROMPTS[3]), 3, 3, 3], "the last sampled token goes in with the next two"
    without = HFSampler(random_llama(), kept_bytes=0)
    tokens = prefilled(without, monkeypatch)
    assert conversations(without, [3], turns=4)[0] != []
    assert tokens == [len(prompt) for prompt, _ in said]


def test_what_is_kept_and_what_is_not_give_the_same_ids() -> None:
    kept = conversations(HFSampler(random_llama()), range(9))
    anew = conversations(HFSampler(random_llama(), kept_bytes=0), range(9))
    assert [[c.token_ids for _, c in said] for said in kept] == [[c.token_ids for _, c in said] for said in anew]


def test_memory_for_kept_rows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = HFSampler(random_llama(), admit_every=1, max_rows=4, kept_bytes=60_000)
    held = []
    put = sampler._shelf.put

    def watched(*arguments: Any) -> None:
        put(*arguments)
        held.append(sum(s.cache.nbytes for s in sampler._shelf._slabs.values() if s.cache is not None))

    monkeypatch.setattr(sampler._shelf, "put", watched)
    conversations(sampler, range(20))
    assert 0 < max(held) <= 60_000


def test_no_keys_and_values_outlive_their_play() -> None:
    def held() -> int:
        gc.collect()
        return sum(type(thing) is RaggedCache for thing in gc.get_objects())

    before = held()
    sampler = HFSampler(random_llama())
    conversations(sampler, range(9))
    assert held() == before


def test_a_prompt_shared_by_a_group_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = HFSampler(random_llama())
    tokens = prefilled(sampler, monkeypatch)
    got = ask_all(sampler, [(PROMPTS[3], params())] * 16)
    assert tokens == [len(PROMPTS[3])]
    assert len({c.token_ids for c in got}) == 16


def test_long_prompts_are_run_in_pieces_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, plain = HFSampler(random_llama(), prefill_tokens=16), random_llama()
    tokens = prefilled(sampler, monkeypatch)
    prompts = [tuple(random.Random(n).choices(range(64), k=5 + 9 * n)) for n in range(6)]
    for prompt, got in zip(prompts, ask_all(sampler, [(p, params()) for p in prompts]), strict=True):
        expected = forward_logps(plain, prompt, got.token_ids, TEMPERATURE)
        assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4
    assert max(tokens) <= 16


def test_the_clock_changes_nothing_about_a_run() -> None:
    draws = random.Random(0)
    runs = [
        conversations(HFSampler(random_llama(), admit_every=2, max_rows=6), range(9), pause=pause)
        for pause in (lambda: 0.0, lambda: draws.random() * 0.02, lambda: draws.choice([0.0, 0.03]))
    ]
    assert runs[0] == runs[1] == runs[2], "to the last bit of every log-probability, as batches are made up alike"


def test_a_whole_play_is_repeated_by_its_seed() -> None:
    codec = ChatCodec(tokenizer_of("chatml"))

    def once() -> list[Episode]:
        sampler = HFSampler(random_llama(vocab_size=len(codec.tokenizer)), tokenizer=codec.tokenizer)
        p = SamplingParams(max_tokens=6, temperature=1.0, seed=5)

        def seats(n: int) -> dict[str, LMSeat]:
            return {a: LMSeat(a, codec, sampler, p, dialogue=n) for a in ("meta_0", "reasoner_0")}

        return play(lambda: ContinuedEnv(), seats, PROBLEMS, concurrency=5)

    first = once()
    assert first == once()
    assert any(len(e.calls) > 2 for e in first)


class ContinuedEnv(Watched):
    """Goes on after cut messages, as an untrained model never ends one."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = type(self.limits)(max_rounds=4, on_cut="continue")


def test_four_answers_to_one_prompt_under_one_seed_differ_and_come_again() -> None:
    def four() -> list[tuple[int, ...]]:
        asked = [(PROMPTS[0], params(temperature=1.0, seed=1))] * 4
        return [got.token_ids for got in ask_all(HFSampler(random_llama()), asked)]

    first = four()
    assert len(set(first)) == 4
    assert first == four()


def test_another_seed_and_another_call_of_a_dialogue_draw_anew() -> None:
    sampler = HFSampler(random_llama())
    one, other = (ask_all(sampler, [(PROMPTS[0], params(seed=s))])[0].token_ids for s in (1, 2))
    assert one != other
    said = conversations(HFSampler(random_llama(), kept_bytes=0), [0], turns=2)[0]
    assert said[0][1].token_ids != said[1][1].token_ids


def test_a_cancelled_call_leaves_the_others_alone_and_its_row_is_freed() -> None:
    sampler, plain = HFSampler(random_llama(), admit_every=2, max_rows=2), random_llama()

    async def scene() -> list[Any]:
        gate = Gate()
        endless, *others = (
            asyncio.create_task(sampler.sample(PROMPTS[n], params(max_tokens=limit), dialogue=n, gate=gate))
            for n, limit in enumerate((200, 30, 30))
        )
        await asyncio.sleep(0.02)
        endless.cancel()
        got = await asyncio.gather(endless, *others, return_exceptions=True)
        return [*got, gate.at_work]

    cancelled, *answers, at_work = asyncio.run(scene())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert at_work == 0
    for prompt, got in zip(PROMPTS[1:3], answers, strict=True):
        expected = forward_logps(plain, prompt, got.token_ids, TEMPERATURE)
        assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4


def test_a_dialogue_over_its_time_limit_does_not_stop_the_sampler() -> None:
    codec = ChatCodec(tokenizer_of("chatml"))
    sampler = HFSampler(random_llama(vocab_size=len(codec.tokenizer)))
    p = SamplingParams(max_tokens=5)

    def seats(n: int) -> dict[str, Any]:
        model = LMSeat("meta_0", codec, sampler, p, dialogue=n)
        return {"meta_0": model, "reasoner_0": Slow(30.0 if n == 0 else 0.0)}

    endings = [e.ending for e in play(ContinuedEnv, seats, PROBLEMS[:3], time_limit=1.0)]
    assert endings[0] == "aborted"
    assert "aborted" not in endings[1:]


def test_an_error_in_the_model_reaches_every_waiting_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = HFSampler(random_llama())

    def broken(*arguments: Any) -> None:
        raise ArithmeticError("the device is gone")

    monkeypatch.setattr(sampler._decoder, "logits", broken)
    with pytest.raises(ArithmeticError, match="the device is gone"):
        ask_all(sampler, [(p, params()) for p in PROMPTS])
    monkeypatch.undo()
    assert len(ask_all(sampler, [(p, params()) for p in PROMPTS])) == len(PROMPTS), "and it can be asked again"


def test_logits_that_are_not_finite_are_an_error_that_names_the_dialogue() -> None:
    model = random_llama()
    sampler = HFSampler(model)
    with torch.no_grad():
        model.lm_head.weight[7, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="not finite in dialogue 0"):
        ask_all(sampler, [(PROMPTS[0], params())])


def test_dropout_is_off_while_sampling() -> None:
    model = random_llama(attention_dropout=0.5).train()
    (got,) = ask_all(HFSampler(model), [(PROMPTS[1], params())])
    expected = forward_logps(random_llama(), PROMPTS[1], got.token_ids, TEMPERATURE)
    assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4


def test_a_stop_string_ends_a_message_with_all_its_characters() -> None:
    tokenizer = tokenizer_of("chatml")
    sampler = HFSampler(random_llama(vocab_size=len(tokenizer)), tokenizer=tokenizer)
    free = ask_all(sampler, [(PROMPTS[0], params(max_tokens=30))])[0].token_ids
    text = tokenizer.decode(free[3:5])
    (got,) = ask_all(sampler, [(PROMPTS[0], params(max_tokens=30, stop_strings=(text,)))])
    assert got.finish is Finish.STOP
    assert got.token_ids == free[: len(got.token_ids)]
    assert text in tokenizer.decode(got.token_ids)
    assert text not in tokenizer.decode(got.token_ids[:-1])


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("named", ["stop_token_ids", "stop_strings"])
def test_a_token_that_was_added_to_the_tokenizer_ends_a_message_by_id_and_by_text(named: str, special: bool) -> None:
    tokenizer = deepcopy(tokenizer_of("chatml"))
    tokenizer.add_tokens(["<search>"], special_tokens=special)
    model, search = random_llama(vocab_size=len(tokenizer)), tokenizer.convert_tokens_to_ids("<search>")
    sampler = HFSampler(model, tokenizer=tokenizer)
    (free,) = ask_all(sampler, [(PROMPTS[0], params(temperature=0.0))])
    with torch.no_grad():
        model.lm_head.weight[search] = 2 * model.lm_head.weight[free.token_ids[4]]  # it is now said in that place
    stop = {named: (search,) if named == "stop_token_ids" else ("<search>",)}
    (got,) = ask_all(HFSampler(model, tokenizer=tokenizer), [(PROMPTS[0], params(temperature=0.0, **stop))])
    assert got.finish is Finish.STOP
    assert got.token_ids.index(search) == len(got.token_ids) - 1


@pytest.mark.parametrize(("cut", "most"), [({"top_k": 3}, 3), ({"top_p": 1e-9}, 1)])
def test_cuts_of_the_distribution_keep_the_likeliest_tokens(cut: dict[str, Any], most: int) -> None:
    sampler, plain = HFSampler(random_llama()), random_llama()
    got = ask_all(sampler, [(PROMPTS[0], params(max_tokens=1, **cut))] * 40 + [(PROMPTS[0], params(max_tokens=1))] * 40)
    with torch.no_grad():
        best = plain(torch.tensor([PROMPTS[0]])).logits[0, -1].topk(most).indices.tolist()
    assert {c.token_ids[0] for c in got[:40]} == set(best)
    assert {c.token_ids[0] for c in got[40:]} > set(best), "others in the batch are not cut"
    if most == 1:
        assert got[0].logps == pytest.approx((0.0,), abs=1e-6)


def test_calls_beyond_the_rows_wait_in_the_order_of_their_dialogues() -> None:
    order: list[int] = []
    sampler = HFSampler(random_llama(), max_rows=1)

    async def one(gate: Gate, dialogue: int) -> None:
        await sampler.sample(PROMPTS[0], params(max_tokens=3), dialogue=dialogue, gate=gate)
        order.append(dialogue)

    async def scene() -> None:
        gate = Gate()
        await asyncio.gather(*(one(gate, n) for n in (3, 0, 4, 1, 2)))

    asyncio.run(scene())
    assert order == [0, 1, 2, 3, 4]


def test_bad_input_is_refused_with_its_numbers() -> None:
    sampler = HFSampler(random_llama())
    with pytest.raises(ValueError, match="250 tokens and 12 new ones do not fit into the model's 256 positions"):
        ask_all(sampler, [((3,) * 250, params())])
    with pytest.raises(ValueError, match="at least one token"):
        ask_all(sampler, [((), params())])
    for outside in (64, -1):
        with pytest.raises(ValueError, match=rf"ids from .*{outside}.*, the model has 0 to 63: codec and sampler need"):
            ask_all(sampler, [((3, outside), params())])
    with pytest.raises(ValueError, match="stop strings need"):
        ask_all(sampler, [((3,), params(stop_strings=("a",)))])
    with pytest.raises(ValueError, match="no weight 'nonsense'"):
        sampler.update_weights([("nonsense", torch.zeros(1))], 1)
    with pytest.raises(ValueError, match=r"lm_head.weight is \(1,\)"):
        sampler.update_weights([("lm_head.weight", torch.zeros(1))], 1)
    with pytest.raises(ValueError, match="max_rows"):
        HFSampler(random_llama(), max_rows=0)


def test_nothing_of_the_old_weights_is_left_for_the_next_call_of_the_same_dialogue() -> None:
    sampler, new = HFSampler(random_llama()), random_llama(1)

    async def scene() -> list[Completion]:
        gate, prompt = Gate(), tuple(range(2, 40))
        made: list[Completion] = []
        for _ in range(2):
            got = await sampler.sample(prompt, params(temperature=0.0), dialogue=0, gate=gate)
            prompt = (*prompt, *got.token_ids, 50, 3)
            made.append(got)
            sampler.update_weights(new.named_parameters(), 1)
        again = await sampler.sample(tuple(range(2, 40)), params(temperature=0.0), dialogue=0, gate=gate)
        return [*made, again]

    def fresh(prompt: Sequence[int]) -> tuple[int, ...]:
        return ask_all(HFSampler(random_llama(1)), [(prompt, params(temperature=0.0))])[0].token_ids

    first, continued, again = asyncio.run(scene())
    assert continued.token_ids == fresh((*range(2, 40), *first.token_ids, 50, 3))
    assert again.token_ids == fresh(range(2, 40)) != first.token_ids


def test_weights_do_not_change_under_a_call() -> None:
    sampler = HFSampler(random_llama())

    async def scene() -> None:
        gate = Gate()
        call = asyncio.create_task(sampler.sample(PROMPTS[0], params(), dialogue=0, gate=gate))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="calls are under way"):
            sampler.update_weights([], 1)
        await call

    asyncio.run(scene())


def test_a_model_that_biases_attention_by_distance_is_refused() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    model = BloomForCausalLM(BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="BloomForCausalLM biases attention by distance"):
        HFSampler(model)


def test_a_model_with_a_state_beyond_keys_and_values_is_refused() -> None:
    model = random_llama()
    model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ValueError, match="only attention layers can be served"):
        HFSampler(model)


def test_a_model_folder_is_loaded_with_its_tokenizer(tmp_path: Any) -> None:
    tokenizer = tokenizer_of("chatml")
    random_llama(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    sampler = HFSampler.from_pretrained(tmp_path, device="cpu")
    plain = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    (got,) = ask_all(sampler, [(PROMPTS[0], params(stop_strings=("no such text",)))])
    expected = forward_logps(plain, PROMPTS[0], got.token_ids, TEMPERATURE)
    assert max(abs(a - b) for a, b in zip(got.logps, expected, strict=True)) < 1e-4


@given(st.lists(st.integers(1, 300), min_size=1, max_size=80), st.integers(300, 4000))
def test_buckets_cover_every_length_within_the_budget_and_pad_little(lengths: list[int], budget: int) -> None:
    lengths = sorted(lengths, reverse=True)
    runs = buckets(lengths, budget)
    assert [i for run in runs for i in range(run.start, run.stop)] == list(range(len(lengths)))
    for run in runs:
        members = lengths[run]
        padded = members[0] * len(members)
        assert padded <= budget or len(members) == 1
        assert padded - sum(members) <= max(256, sum(members) // 4)


def test_problems_keep_their_ids_in_episodes_of_a_model() -> None:
    codec = ChatCodec(tokenizer_of("gemma"))
    sampler = HFSampler(random_llama(vocab_size=len(codec.tokenizer)))
    p = SamplingParams(max_tokens=4)
    problems = [Problem("a", "Compute 1+1", "2"), Problem("b", "Compute 2+2", "4")]
    played = play(
        Watched,
        lambda n: {a: LMSeat(a, codec, sampler, p, dialogue=n) for a in ("meta_0", "reasoner_0")},
        problems,
    )
    assert [e.problem.id for e in played] == ["a", "b"]
    assert all(c.completion.finish in (Finish.STOP, Finish.LENGTH) for e in played for c in e.calls)
