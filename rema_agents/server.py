"""A connection to an OpenAI-compatible server: bounded concurrency, time limits, retries with backoff."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from rema_agents.loop_thread import LoopThread

if TYPE_CHECKING:
    import openai

T = TypeVar("T")


class TooLong(ValueError):
    """The server has no room for a chat."""


class Unreadable(Exception):
    """An answer that is not what was asked for."""


class Server:
    """A connection with bounded concurrency, time limits and retries; usable from any event loop.

    Args:
        base_url: e.g. `http://localhost:8000/v1`.
        model: its name there; by default the only one that the server lists.
        api_key: if the server wants one; by default that of the environment's OPENAI_API_KEY.
        timeout: [seconds] for one request.
        max_concurrency: requests at once; more wait, first come, first served.
        attempts: how often a request is made before it counts as lost; waits between them grow to `max_wait` seconds.

    Attributes:
        room: tokens of prompt and completion together, where the server tells.

    Raises:
        ValueError: nobody answers there, or the model is not to be found.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        max_concurrency: int = 64,
        attempts: int = 6,
        max_wait: float = 30.0,
    ) -> None:
        import asyncio

        import openai

        self.base_url = base_url.rstrip("/")
        self._attempts = attempts
        self._max_wait = max_wait
        self._loop = LoopThread("remote")
        key = api_key or os.environ.get("OPENAI_API_KEY") or "none"
        self._client = openai.AsyncOpenAI(base_url=self.base_url, api_key=key, timeout=timeout, max_retries=0)
        self._slots = asyncio.Semaphore(max_concurrency)
        self._lost_said = False
        try:
            self.model, self.room = (model, None) if model else self._loop.run(self._only_model())
        except BaseException:
            self.close()
            raise

    async def ask(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]]) -> T | None:
        """What the server answers; None, and a warning the first time, where every attempt was lost.

        Args:
            request: asks and reads the answer; one that cannot be read is as good as lost.

        Raises:
            TooLong: the chat and the tokens asked for do not fit into the model's context.
            ValueError: the server refuses the request as such.
        """
        return await self._loop.wait(self._ask(request, "; the dialogue ends as aborted"))

    def ask_now(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]]) -> T | None:
        """`ask` from outside any event loop."""
        return self._loop.run(self._ask(request))

    def close(self) -> None:
        """Close the connection; a second time, nothing."""
        if not self._loop.stopped:
            self._loop.run(self._client.close())
            self._loop.stop()

    async def _ask(self, request: Callable[[openai.AsyncOpenAI], Awaitable[T]], so: str = "") -> T | None:
        import openai
        from tenacity import AsyncRetrying, RetryError, retry_if_exception, stop_after_attempt, wait_random_exponential

        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(multiplier=0.5, max=self._max_wait),
        )
        try:
            async for attempt in retrying:
                with attempt:
                    async with self._slots:
                        return await _read(request, self._client)
        except RetryError as error:
            self._say_lost(error.last_attempt.exception(), so)
        except openai.APIStatusError as error:
            told = error.message if " - " in error.message else f"{error.message} {error.body or ''}".rstrip()
            kind = TooLong if re.search(_NO_ROOM, told) else ValueError
            raise kind(f"{self.base_url} refuses the request: {told:.500}") from error
        return None

    async def _only_model(self) -> tuple[str, int | None]:
        """The name of the model, and its room."""

        async def listed(client: openai.AsyncOpenAI) -> dict[str, int | None]:
            return {str(m.id): getattr(m, "max_model_len", None) for m in (await client.models.list()).data}

        models = await self._ask(listed)
        if models is None:
            raise ValueError(f"nobody answers at {self.base_url}")
        if len(models) != 1:
            raise ValueError(f"{self.base_url} lists the models {', '.join(models) or 'none'}: name one")
        return next(iter(models.items()))

    def _say_lost(self, error: BaseException | None, so: str) -> None:
        if not self._lost_said:
            self._lost_said = True
            warnings.warn(f"{self.base_url} did not answer in {self._attempts} attempts ({error}){so}", stacklevel=2)


_NO_ROUTE = (404, 405, 501)
_NO_ROOM = "context.(length|size|window)|model length|max_tokens must be at least 1, got 0|`inputs` tokens"
"""How servers say that a chat does not fit: OpenAI, SGLang; llama.cpp; vLLM, of one that leaves no token; TGI."""


async def _read(request: Callable[[openai.AsyncOpenAI], Awaitable[T]], client: openai.AsyncOpenAI) -> T:
    try:
        return await request(client)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # ValueError: it is no JSON
        raise Unreadable(f"its answer cannot be read: {error}") from error


def _may_pass(error: BaseException) -> bool:
    """Whether trying again can help: connection, time limit, too many requests, an error of the server's own."""
    import openai

    if isinstance(error, openai.APIStatusError):
        code = error.status_code
        return code in (408, 409, 429) or (code >= 500 and code not in _NO_ROUTE)
    return isinstance(error, openai.APIConnectionError | Unreadable)
