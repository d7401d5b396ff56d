"""Models behind an OpenAI-compatible server: `vllm serve` and others.

`RemoteSampler` speaks token ids and needs a server that takes and gives them. It can be trained where the server also
gives the log-probabilities of what it sampled, after temperature, and takes new weights: `vllm serve` does with

    VLLM_SERVER_DEV_MODE=1 vllm serve FOLDER --logprobs-mode processed_logprobs \\
        --worker-extension-cls rema_agents.vllm.Reload

on a machine that shares /dev/shm or the temporary files with this one. `RemoteSeat` speaks text and needs nothing but
chat completions: for frozen partners and evaluation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rema_agents.chat import split_reasoning
from rema_agents.gate import Gate
from rema_agents.server import Server, TooLong
from rema_agents.types import Completion, SamplingParams
from rema_agents.weight_files import WeightFiles
from rema_env.transcript import Finish, Message

if TYPE_CHECKING:
    import openai
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

_RELOADS = "rema_agents.vllm.Reload"
_PROBE = (1, 2, 3)  # not 0, which is padding in many models and says nothing
_TEXT = "Compute (3+4)*2 modulo 10. The answer is \\boxed{4}, as naïve as it looks."


class NoTokenIds(ValueError):
    """A server that speaks text only."""


class RemoteSampler:
    """Samples token ids from a server that takes and gives them.

    Args:
        base_url: e.g. `http://localhost:8000/v1`.
        hands_over: of several processes that publish the same weights to one server, one hands them over.
        settings: of `Server`.

    Attributes:
        gives_logps: the server gives log-probabilities under the temperature used.
        takes_weights: the server can be given new weights.

    Raises:
        NoTokenIds: the server gives no token ids.
        ValueError: nobody answers there.
    """

    def __init__(self, base_url: str, *, hands_over: bool = True, **settings: Any) -> None:
        self._hands_over = hands_over
        self._server = Server(base_url, **settings)
        self._weights = WeightFiles()
        self._weight_version = 0
        self._checksum: int | None = None
        try:
            self.gives_logps = self._probe_logps()
            self.takes_weights = self._probe_weights()
        except BaseException:
            self.close()
            raise

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """Continue one prompt; see `Sampler`. Finish is `aborted` where no answer came, `context_full` without room."""
        version = self._weight_version

        async def completion(client: openai.AsyncOpenAI) -> Completion:
            choice = (await self._complete(client, prompt_ids, params)).choices[0]
            ids, logps = tuple(choice.token_ids), tuple(choice.logprobs.token_logprobs) if self.gives_logps else ()
            if len(logps) not in (0, len(ids)) or not all(map(math.isfinite, logps)):
                raise ValueError(f"{len(ids)} tokens have the log-probabilities {logps!s:.80}")
            return Completion(ids, logps, _finish(choice.finish_reason), version)

        try:
            return await self._server.ask(completion) or Completion((), (), Finish.ABORTED, version)
        except TooLong:
            return Completion((), (), Finish.CONTEXT_FULL, version)

    def check_trainable(self, tokens: int = 0) -> None:
        """Say what training on this server lacks. Raises ValueError where it lacks anything.

        Args:
            tokens: of the longest prompt and what is said to it; vLLM cuts messages short that do not fit.
        """
        lacks = []
        if self._server.room is not None and tokens > self._server.room:
            lacks.append(
                f"room for {tokens} tokens, as --max-prompt-length and --max-completion-length come to (lower them by "
                f"{tokens - self._server.room} together, or --max-model-len {tokens})"
            )
        if not self.gives_logps:
            lacks.append("log-probabilities after temperature (--logprobs-mode processed_logprobs)")
        if not self.takes_weights:
            lacks.append(f"a way to take weights (VLLM_SERVER_DEV_MODE=1 and --worker-extension-cls {_RELOADS})")
        if lacks:
            raise ValueError(
                f"{self._server.base_url} can serve frozen seats and evaluation only: training needs "
                + " and ".join(lacks)
            )

    def check_tokens(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise ValueError where the server takes text apart otherwise. One that does not tell is taken at its word."""
        body = {"model": self._server.model, "prompt": _TEXT, "add_special_tokens": False}
        try:
            told = self._server.ask_now(lambda c: c.post(f"{self._root}/tokenize", cast_to=str, body=body))
        except ValueError:  # no such route
            return
        if told is not None and json.loads(told)["tokens"] != tokenizer(_TEXT, add_special_tokens=False)["input_ids"]:
            raise ValueError(
                f"{self._server.base_url} serves a model with other tokens than {tokenizer.name_or_path}: name the "
                "model folder that it serves"
            )

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Hand weights over through shared files and have the cache of the old forgotten."""
        if not self.takes_weights:
            self.check_trainable()
        if self._hands_over:
            self._weights.write(named_tensors)
            told = self._post("collective_rpc", {"method": "take_weights", "args": [self._weights.folder]})
            self._checksum = int(json.loads(told)["results"][0])
            self._post("reset_prefix_cache", {})
        else:
            for _ in named_tensors:  # gathering them may need every process
                pass
        self._weight_version = version

    def checksum(self) -> int | None:
        """Of the weights that the server took last, as they arrived; None in a process that did not hand them over."""
        return self._checksum

    def close(self) -> None:
        """Close the connection and remove the files."""
        self._server.close()
        self._weights.remove()

    async def _complete(
        self, client: openai.AsyncOpenAI, prompt_ids: Sequence[int], params: SamplingParams, logprobs: int = 0
    ) -> Any:
        return await client.completions.create(
            model=self._server.model,
            prompt=list(prompt_ids),
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            logprobs=logprobs,
            stop=list(params.stop_strings) or None,
            extra_body={
                "return_token_ids": True,
                "stop_token_ids": list(params.stop_token_ids),
                "ignore_eos": True,
                "include_stop_str_in_output": True,
                "skip_special_tokens": False,  # a stop string may be one
                **({"top_k": params.top_k} if params.top_k else {}),
            },
        )

    def _probe_logps(self) -> bool:
        """Whether log-probabilities come, and change with the temperature, as those after it do."""

        async def choice(client: openai.AsyncOpenAI, temperature: float) -> Any:
            answer = await self._complete(client, _PROBE, SamplingParams(1, temperature=temperature), 3)
            return answer.choices[0]

        text_only = NoTokenIds(
            f"{self._server.base_url} gives no token ids (vllm serve does), so it can serve frozen seats and "
            "evaluation only"
        )
        try:
            answers = [self._server.ask_now(partial(choice, temperature=temperature)) for temperature in (0.5, 1.0)]
        except ValueError as refusal:  # a wrong key or address was refused before; chat completions are all it has
            raise text_only from refusal
        if any(answer is None for answer in answers):
            raise ValueError(f"nobody answers at {self._server.base_url}")
        if any(not getattr(answer, "token_ids", None) for answer in answers):
            raise text_only
        logprobs: list[Any] = [getattr(answer, "logprobs", None) for answer in answers]
        if any(not given or not given.top_logprobs for given in logprobs):
            return False
        colder, warmer = (given.top_logprobs[0] for given in logprobs)
        return any(abs(colder[token] - warmer[token]) > 1e-3 for token in colder.keys() & warmer.keys())

    def _probe_weights(self) -> bool:
        route = f"{self._root}/server_info?config_format=json"
        try:
            told = self._server.ask_now(lambda client: client.get(route, cast_to=str))
        except ValueError:  # no such route: not vLLM, or not in development mode
            return False
        return told is not None and _RELOADS in told

    def _post(self, route: str, body: Mapping[str, Any]) -> str:
        """One of the routes that vLLM's server has at its root, beside those of OpenAI."""
        told = self._server.ask_now(lambda client: client.post(f"{self._root}/{route}", cast_to=str, body=body))
        if told is None:
            raise RuntimeError(f"{self._server.base_url} did not take the weights: {route} went unanswered")
        return told

    @property
    def _root(self) -> str:
        return self._server.base_url.removesuffix("/v1")


class RemoteSeat:
    """A frozen agent on any server with chat completions; speaks text and keeps no calls.

    Args:
        server: shared by the seats of many dialogues.
        params: limits and temperature.
        share_thinking: leave reasoning blocks in the message.
    """

    def __init__(self, server: Server, params: SamplingParams, *, share_thinking: bool = False) -> None:
        self._server = server
        self._params = params
        self._share_thinking = share_thinking

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """The server's next message; finish `aborted` where it did not answer in time, `context_full` without room."""
        messages = [dict(message) for message in observation["messages"]]

        async def message(client: openai.AsyncOpenAI) -> Message:
            choice = (await self._chat(client, messages)).choices[0]
            text, finish = choice.message.content or "", _finish(choice.finish_reason)
            reasoning, rest = split_reasoning(text)
            return Message(text, finish) if self._share_thinking else Message(rest, finish, reasoning)

        try:
            said = await self._server.ask(message)
        except TooLong:
            return Message("", Finish.CONTEXT_FULL)
        return Message("", Finish.ABORTED) if said is None else said

    async def _chat(self, client: openai.AsyncOpenAI, messages: Sequence[Mapping[str, str]]) -> Any:
        return await client.chat.completions.create(
            model=self._server.model,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=self._params.max_tokens,
            temperature=self._params.temperature,
            top_p=self._params.top_p,
            stop=list(self._params.stop_strings) or None,
        )


def _finish(reason: str) -> Finish:
    if reason == "abort":
        raise ValueError("the server gave the request up")
    return Finish.LENGTH if reason == "length" else Finish.STOP
