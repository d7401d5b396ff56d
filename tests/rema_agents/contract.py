"""What every sampler must do, as checks that each sampler's own tests run, at temperature 0.6."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from rema_agents.gate import Gate
from rema_agents.types import Completion, Sampler, SamplingParams
from rema_env.transcript import Finish

VOCABULARY = 64
TEMPERATURE = 0.6
PROMPTS = [tuple(range(2, 2 + n)) for n in (3, 9, 4, 17)] + [(5,) * 6, (60, 3, 40), (7, 8, 9, 10, 11)]


@dataclass(frozen=True)
class Subject:
    """A sampler to be checked.

    Attributes:
        model: an independent copy of what it samples from, None where it follows a script.
        repeats: whether the same seed gives the same ids.
        publish: gives the sampler the weights of a model and a version; None where it has no way to take any.
    """

    sampler: Sampler
    model: PreTrainedModel | None
    repeats: bool = True
    publish: Callable[[PreTrainedModel | None, int], None] | None = None

    @property
    def tied(self) -> bool:
        """Whether the model's two embeddings are one."""
        return self.model is not None and bool(self.model.config.tie_word_embeddings)


def random_llama(seed: int = 0, *, tied: bool = False, **changes: float) -> PreTrainedModel:
    """A small model with opinions: some tokens are likely, none is certain."""
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256, "initializer_range": 0.2,
        "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **changes}, tie_word_embeddings=tied)).eval()


@torch.no_grad()
def forward_logps(model: PreTrainedModel, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> list[float]:
    """Log-probabilities [nats] of `ids` after `prompt`, by one plain forward over the whole row."""
    row = torch.tensor([[*prompt, *ids]], device=model.device)
    logp_TV = torch.log_softmax(model(row, use_cache=False).logits[0].float() / temperature, dim=-1)
    return [float(logp_TV[len(prompt) - 1 + t, token]) for t, token in enumerate(ids)]


def gap_of(model: PreTrainedModel, prompts: Sequence[Sequence[int]], completions: Sequence[Completion]) -> float:
    """The largest distance [nats] of log-probabilities, sampled at `TEMPERATURE`, from a plain forward."""
    return max(
        abs(a - b)
        for prompt, got in zip(prompts, completions, strict=True)
        for a, b in zip(got.logps, forward_logps(model, prompt, got.token_ids, TEMPERATURE), strict=True)
    )


def params(**changes: object) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 12, "temperature": TEMPERATURE, "seed": 3, **changes})  # type: ignore[arg-type]


def ask_all(sampler: Sampler, asked: Sequence[tuple[Sequence[int], SamplingParams]]) -> list[Completion]:
    """All calls at once, each in a dialogue of its own."""

    async def scene() -> list[Completion]:
        gate = Gate()
        calls = (sampler.sample(prompt, p, dialogue=n, gate=gate) for n, (prompt, p) in enumerate(asked))
        completions = await asyncio.gather(*calls)
        assert gate.at_work == 0
        return completions

    return asyncio.run(scene())


def a_call_has_a_log_probability_for_each_token_and_each_is_the_models(subject: Subject) -> None:
    completions = ask_all(subject.sampler, [(p, params()) for p in PROMPTS])
    for got in completions:
        assert len(got.token_ids) == 12 if subject.model is not None else got.token_ids
        assert len(got.logps) == len(got.token_ids)
    if subject.model is None:
        assert {logp for got in completions for logp in got.logps} == {0.0}
    else:
        assert gap_of(subject.model, PROMPTS, completions) < 1e-4


def a_sampled_stop_token_is_kept_as_the_last_id(subject: Subject) -> None:
    stops = tuple(range(VOCABULARY // 2, 1000 if subject.model is None else subject.model.config.vocab_size))
    for got in ask_all(subject.sampler, [(p, params(stop_token_ids=stops, max_tokens=60)) for p in PROMPTS]):
        assert got.finish is Finish.STOP
        assert got.token_ids[-1] in stops
        assert not set(got.token_ids[:-1]) & set(stops)
        assert len(got.logps) == len(got.token_ids)


def a_call_is_cut_at_its_limit_and_gets_no_forged_end(subject: Subject) -> None:
    limits = (1, 2, 5)
    answers = ask_all(subject.sampler, [(PROMPTS[0], params(max_tokens=n)) for n in limits])
    for limit, got in zip(limits, answers, strict=True):
        assert got.finish is Finish.LENGTH
        assert len(got.token_ids) == limit


def calls_of_different_lengths_and_limits_do_not_mix(subject: Subject) -> None:
    completions = ask_all(subject.sampler, [(p, params(max_tokens=1 + 3 * n)) for n, p in enumerate(PROMPTS)])
    for n, got in enumerate(completions):
        assert len(got.token_ids) <= 1 + 3 * n
        assert got.finish is not Finish.LENGTH or len(got.token_ids) == 1 + 3 * n
    assert subject.model is None or gap_of(subject.model, PROMPTS, completions) < 1e-4


def completions_carry_the_version_of_the_weights(subject: Subject) -> None:
    if subject.publish is None:
        return
    for version in (4, 5):
        subject.publish(subject.model, version)
        completions = ask_all(subject.sampler, [(p, params()) for p in PROMPTS])
        assert {c.weight_version for c in completions} == {version}
        assert subject.model is None or gap_of(subject.model, PROMPTS, completions) < 1e-4, (
            "its weights have not changed"
        )


def the_same_seed_gives_the_same_ids_whoever_shares_the_batch(subject: Subject) -> None:
    if not subject.repeats:
        return
    together = ask_all(subject.sampler, [(p, params()) for p in PROMPTS])
    assert [c.token_ids for c in ask_all(subject.sampler, [(p, params()) for p in PROMPTS])] == [
        c.token_ids for c in together
    ]
    assert ask_all(subject.sampler, [(PROMPTS[0], params())])[0].token_ids == together[0].token_ids


def dialogues_that_ask_the_same_get_different_answers(subject: Subject) -> None:
    if subject.model is None:
        return
    got = ask_all(subject.sampler, [(PROMPTS[0], params())] * 8)
    assert len({c.token_ids for c in got}) == 8, "one seed for all would make a group without variance"


def the_temperature_is_that_of_the_log_probabilities(subject: Subject) -> None:
    if subject.model is None:
        return
    (got,) = ask_all(subject.sampler, [(PROMPTS[1], params())])
    at_one = forward_logps(subject.model, PROMPTS[1], got.token_ids, 1.0)
    assert max(abs(a - b) for a, b in zip(got.logps, at_one, strict=True)) > 1e-2


def generated(model: PreTrainedModel, prompt: Sequence[int]) -> tuple[int, ...]:
    """The twelve likeliest ids after `prompt`, by transformers' own loop."""
    row = torch.tensor([prompt], device=model.device)
    out = model.generate(row, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
    return tuple(out[0, len(prompt) :].tolist())


def at_temperature_0_the_answer_is_what_generate_gives(subject: Subject) -> None:
    if subject.model is None:
        return
    sampled = ask_all(subject.sampler, [(p, params()) for p in PROMPTS])
    likeliest = ask_all(subject.sampler, [(p, params(temperature=0.0)) for p in PROMPTS])
    assert gap_of(subject.model, PROMPTS, sampled) < 1e-4, "it has the model's weights"
    assert [c.token_ids for c in likeliest] == [generated(subject.model, p) for p in PROMPTS]


def new_weights_change_what_is_sampled_and_nothing_of_the_old_is_left(subject: Subject) -> None:
    if subject.publish is None or subject.model is None:
        return
    other = random_llama(1, tied=subject.tied, vocab_size=subject.model.config.vocab_size)
    prompts = [*PROMPTS, tuple(2 + n % 60 for n in range(100))]  # the last one fills blocks of a prefix cache
    greedy = [(p, params(temperature=0.0)) for p in prompts]
    before = ask_all(subject.sampler, greedy)
    subject.publish(other, 8)
    try:
        sampled = ask_all(subject.sampler, [(p, params()) for p in prompts])
        after = ask_all(subject.sampler, greedy)
    finally:
        subject.publish(subject.model, 9)
    assert [c.token_ids for c in after] == [generated(other, p) for p in prompts], "as a fresh one would answer"
    assert [c.token_ids for c in after] != [c.token_ids for c in before]
    assert gap_of(other, prompts, sampled) < 1e-4
    assert gap_of(subject.model, prompts, sampled) > 1e-2, "the check must be able to fail"


CHECKS: list[Callable[[Subject], None]] = [
    a_call_has_a_log_probability_for_each_token_and_each_is_the_models,
    a_sampled_stop_token_is_kept_as_the_last_id,
    a_call_is_cut_at_its_limit_and_gets_no_forged_end,
    calls_of_different_lengths_and_limits_do_not_mix,
    completions_carry_the_version_of_the_weights,
    the_same_seed_gives_the_same_ids_whoever_shares_the_batch,
    dialogues_that_ask_the_same_get_different_answers,
    the_temperature_is_that_of_the_log_probabilities,
    at_temperature_0_the_answer_is_what_generate_gives,
    new_weights_change_what_is_sampled_and_nothing_of_the_old_is_left,
]
