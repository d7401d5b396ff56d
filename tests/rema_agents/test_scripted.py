"""The scripted sampler keeps the contract, and says what its script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.scripted import ScriptedSampler
from rema_agents.seat import LMSeat, ScriptedSeat
from rema_agents.types import Call, Completion, SamplingParams
from rema_env.transcript import Ending, Finish, Message, Problem
from tests.rema_agents import contract
from tests.rema_agents.templates import tokenizer_of
from tests.rema_agents.test_play import PROBLEMS, Watched

CODEC = ChatCodec(tokenizer_of("chatml"))


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[contract.Subject], None]) -> None:
    sampler = ScriptedSampler(CODEC.tokenizer, lambda prompt, dialogue: f"{prompt} says {dialogue}")
    check(contract.Subject(sampler, None, publish=lambda model, version: sampler.update_weights([], version)))


def speak(prompt: str, dialogue: int) -> str:
    """A meta-thinker that finishes at once, a reasoner that always answers 1."""
    return "1" if "Instruction" in prompt else "Answer. [FINISH]"


def seats(dialogue: int, max_prompt_length: int | None = None) -> dict[str, LMSeat]:
    sampler = ScriptedSampler(CODEC.tokenizer, speak)
    return {
        agent: LMSeat(
            agent,
            CODEC,
            sampler,
            SamplingParams(max_tokens=40),
            dialogue=dialogue,
            max_prompt_length=max_prompt_length,
        )
        for agent in ("meta_0", "reasoner_0")
    }


def test_an_episode_has_one_call_for_each_turn_with_the_ids_that_were_said() -> None:
    (episode,) = play(Watched, seats, PROBLEMS[:1])
    assert episode.ending is Ending.FINISHED
    assert [(c.agent, c.turn) for c in episode.calls] == [("meta_0", 0), ("reasoner_0", 1)]
    for call, turn in zip(episode.calls, episode.transcript.turns, strict=True):
        assert call.completion.token_ids == CODEC.reply_ids(str(turn.message))
        assert CODEC.decode(call.completion.token_ids) == turn.message


def test_a_chat_that_does_not_fit_is_not_sent_and_ends_the_dialogue_as_context_full() -> None:
    problem = Problem("long", "word " * 300, "1")
    (episode,) = play(Watched, lambda n: seats(n, max_prompt_length=256), [problem])
    assert episode.ending is Ending.CONTEXT_FULL
    assert episode.calls == ()
    assert episode.transcript.turns[-1].message == Message("", Finish.CONTEXT_FULL)


def test_a_prompt_near_the_limit_is_sent_whole_or_not_at_all_and_begins_with_the_system_prompt() -> None:
    sent: list[tuple[int, ...]] = []

    class Noted(ScriptedSampler):
        async def sample(self, prompt_ids: Sequence[int], *arguments: Any, **named: Any) -> Completion:
            sent.append(tuple(prompt_ids))
            return await super().sample(prompt_ids, *arguments, **named)

    chats = [({"role": "system", "content": "Be brief."}, {"role": "user", "content": "1" * n}) for n in (200, 300)]
    sampler = Noted(CODEC.tokenizer, speak)
    finishes = []
    for chat in chats:
        seat = LMSeat("meta_0", CODEC, sampler, SamplingParams(max_tokens=40), max_prompt_length=256)
        finishes.append(asyncio.run(seat.say({"messages": chat, "turn": 0}, gate=Gate())).finish)
    assert [len(CODEC.prompt_ids(chat)) > 256 for chat in chats] == [False, True]
    assert finishes == [Finish.STOP, Finish.CONTEXT_FULL]
    assert sent == [CODEC.prompt_ids(chats[0])]
    assert "Be brief." in CODEC.tokenizer.decode(sent[0])


def test_a_prompt_of_exactly_the_limit_is_sent() -> None:
    (episode,) = play(Watched, seats, PROBLEMS[:1])
    longest = max(len(call.prompt_ids) for call in episode.calls)
    endings = [
        play(Watched, partial(seats, max_prompt_length=limit), PROBLEMS[:1])[0].ending
        for limit in (longest, longest - 1)
    ]
    assert endings == [Ending.FINISHED, Ending.CONTEXT_FULL]


def test_a_stop_string_ends_a_message_and_stays_in_it() -> None:
    sampler = ScriptedSampler(CODEC.tokenizer, lambda prompt, dialogue: "Now. [FINISH] and more")
    (got,) = contract.ask_all(sampler, [((5, 6), SamplingParams(40, stop_strings=("[FINISH]",)))])
    assert got.finish is Finish.STOP
    assert CODEC.decode(got.token_ids) == "Now. [FINISH]"


def test_a_scripted_seat_says_its_lines_and_repeats_the_last() -> None:
    seat = ScriptedSeat(["a", "b"])
    said = [asyncio.run(seat.say({"messages": (), "turn": 0}, gate=None)) for _ in range(3)]  # type: ignore[arg-type]
    assert said == ["a", "b", "b"]
    with pytest.raises(ValueError, match="at least one line"):
        ScriptedSeat([])


def test_calls_are_kept_as_sampled() -> None:
    (episode,) = play(Watched, seats, PROBLEMS[:1])
    assert all(isinstance(call, Call) and call.completion.finish is Finish.STOP for call in episode.calls)
    assert all(call.completion.token_ids[-1] in CODEC.stop_token_ids for call in episode.calls)
