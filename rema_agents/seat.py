"""Seats: who sits at the table. A language model through a codec and a sampler, or any function of a chat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rema_agents.chat import ChatCodec
from rema_agents.gate import Gate
from rema_agents.types import Call, Sampler, SamplingParams
from rema_env.transcript import Finish, Message


class LMSeat:
    """A language model playing one agent in one dialogue; keeps every call in tokens.

    Args:
        agent: whose part it plays, e.g. `meta_0`.
        codec: the model's chat format.
        sampler: who continues the prompts.
        params: limits and temperature; without stop tokens of their own, the codec's apply.
        dialogue: the dialogue's number within its play.
        max_prompt_length: a longer prompt [tokens] is not sent: the seat says "" with finish `context_full`.
        share_thinking: leave reasoning blocks in the message instead of keeping them apart.

    Attributes:
        calls: what was sampled so far, one for each message that is not empty by `context_full` or `aborted`.
    """

    def __init__(
        self,
        agent: str,
        codec: ChatCodec,
        sampler: Sampler,
        params: SamplingParams,
        *,
        dialogue: int = 0,
        max_prompt_length: int | None = None,
        share_thinking: bool = False,
    ) -> None:
        self.agent = agent
        self.calls: list[Call] = []
        self._codec = codec
        self._sampler = sampler
        self._params = params if params.stop_token_ids else replace(params, stop_token_ids=codec.stop_token_ids)
        self._dialogue = dialogue
        self._max_prompt_length = max_prompt_length
        self._share_thinking = share_thinking

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """The next message; its finish tells whether it was cut, did not fit, or was lost."""
        prompt_ids = self._codec.prompt_ids(observation["messages"], self.calls)
        if self._max_prompt_length is not None and len(prompt_ids) > self._max_prompt_length:
            return Message("", Finish.CONTEXT_FULL)
        completion = await self._sampler.sample(prompt_ids, self._params, dialogue=self._dialogue, gate=gate)
        if completion.finish in (Finish.ABORTED, Finish.CONTEXT_FULL):
            return Message("", completion.finish)
        self.calls.append(Call(self.agent, int(observation["turn"]), prompt_ids, completion))
        return self._codec.message(completion, share_thinking=self._share_thinking)


class ScriptedSeat:
    """A seat that speaks text: a function of the chat, or lines said one after the other.

    Args:
        speak: `speak(messages) -> str | Message`, given the observation's messages; or a sequence of lines, of which
            the last is repeated.
    """

    def __init__(self, speak: Callable[[Sequence[Mapping[str, str]]], Message | str] | Sequence[str]) -> None:
        if not callable(speak) and not speak:
            raise ValueError("a scripted seat needs at least one line to say")
        self._speak = speak
        self._said = 0

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message | str:
        """The next line."""
        if callable(self._speak):
            return self._speak(observation["messages"])
        line = self._speak[min(self._said, len(self._speak) - 1)]
        self._said += 1
        return line
