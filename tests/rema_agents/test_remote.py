"""A real `vllm serve` on loopback keeps the contract; servers that fail, refuse or lack something are told apart."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rema_agents.checksum import Counted
from rema_agents.gate import Gate
from rema_agents.play import play
from rema_agents.remote import NoTokenIds, RemoteSampler, RemoteSeat
from rema_agents.seat import LMSeat, ScriptedSeat
from rema_agents.server import Server
from rema_agents.types import SamplingParams, Seat
from rema_env.transcript import Ending, Finish, Message
from tests.rema_agents import contract
from tests.rema_agents.contract import PROMPTS, ask_all, params
from tests.rema_agents.templates import tokenizer_of
from tests.rema_agents.test_hf import ContinuedEnv
from tests.rema_agents.test_play import PROBLEMS, Watched
from tests.rema_agents.test_vllm import publish_and_compare
from tests.served import CODEC, Served, free_port, needs_vllm, small_model

pytestmark = pytest.mark.xdist_group("vllm")


@pytest.fixture(scope="module")
def subject(served: Served) -> Iterator[contract.Subject]:
    """vLLM's server with an untied model, and the same model in torch."""
    served.start_anew()
    sampler = RemoteSampler(served.url)
    model = small_model(tied=False)

    def publish(new: Any, version: int) -> None:
        sampler.update_weights(new.named_parameters(), version)

    yield contract.Subject(sampler, model, repeats=False, publish=publish)
    sampler.close()


@needs_vllm
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Callable[[contract.Subject], None], subject: contract.Subject) -> None:
    check(subject)


@needs_vllm
def test_after_each_publish_64_dialogues_agree_with_the_new_weights_and_not_with_the_old(
    subject: contract.Subject,
) -> None:
    publish_and_compare(subject, CODEC)


@needs_vllm
def test_a_server_that_gives_all_and_takes_weights_can_be_trained(subject: contract.Subject) -> None:
    assert isinstance(subject.sampler, RemoteSampler)
    assert (subject.sampler.gives_logps, subject.sampler.takes_weights) == (True, True)
    subject.sampler.check_trainable(512)
    with pytest.raises(ValueError, match=r"training needs room for 515 tokens.*lower them by 3 together"):
        subject.sampler.check_trainable(515)
    subject.sampler.check_tokens(CODEC.tokenizer)
    with pytest.raises(ValueError, match="serves a model with other tokens than"):
        subject.sampler.check_tokens(tokenizer_of("chatml"))


@needs_vllm
def test_a_chat_may_fill_the_context_to_its_last_token_and_no_further(subject: contract.Subject) -> None:
    lengths = {500: 12, 501: 11, 511: 1, 512: 0, 513: 0}
    for room, got in zip(
        lengths.values(), ask_all(subject.sampler, [((5,) * n, params()) for n in lengths]), strict=True
    ):
        assert (len(got.token_ids), got.finish) == (room, Finish.LENGTH if room else Finish.CONTEXT_FULL)
    seat = LMSeat("meta_0", CODEC, subject.sampler, params())
    said = asyncio.run(seat.say({"messages": [{"role": "user", "content": "1+" * 300}], "turn": 0}, gate=Gate()))
    assert (said, seat.calls) == (Message("", Finish.CONTEXT_FULL), [])


@needs_vllm
def test_the_server_tells_which_weights_arrived(subject: contract.Subject) -> None:
    assert isinstance(subject.sampler, RemoteSampler)
    sent = Counted(small_model(tied=False).named_parameters)
    subject.sampler.update_weights(sent, 23)
    assert subject.sampler.checksum() == sent.checksum


@needs_vllm
def test_a_play_against_a_frozen_partner_keeps_the_calls_of_the_learner_alone(
    served: Served, subject: contract.Subject
) -> None:
    server = Server(served.url)
    p = SamplingParams(max_tokens=6)

    def seats(n: int) -> dict[str, Any]:
        return {
            "meta_0": LMSeat("meta_0", CODEC, subject.sampler, p, dialogue=n),
            "reasoner_0": RemoteSeat(server, p),
        }

    played = play(ContinuedEnv, seats, PROBLEMS)
    server.close()
    for episode in played:
        assert {call.agent for call in episode.calls} == {"meta_0"}
        assert {turn.agent for turn in episode.transcript.turns} == {"meta_0", "reasoner_0"}


class Scripted(BaseHTTPRequestHandler):
    """A server that answers as the test says: a body, or a status and a body, one after the other, the last again."""

    replies: list[Any]
    asked: list[tuple[str, Any]]
    delay: float
    models: int

    def do_GET(self) -> None:
        body = {"object": "list", "data": [{"id": name, "object": "model"} for name in ("one", "two")[: self.models]]}
        self._send(200 if self.path.endswith("/models") else 404, body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path, asked))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        time.sleep(self.delay)
        self._send(*(reply if isinstance(reply, tuple) else (200, reply)))

    def _send(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


class Quiet(ThreadingHTTPServer):
    """A server that does not mind a client that went away."""

    def handle_error(self, *arguments: Any) -> None:
        """The client's time limit is what the test is about."""


@pytest.fixture
def script() -> Iterator[Callable[..., Any]]:
    """Start a scripted server: `script(*replies, models=1, delay=0)` -> its handler, with `.url`."""
    servers: list[ThreadingHTTPServer] = []

    def start(*replies: Any, models: int = 1, delay: float = 0.0) -> Any:
        made = {"replies": list(replies), "asked": [], "models": models, "delay": delay}
        handler = type("Handler", (Scripted,), made)
        server = Quiet(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        handler.url = f"http://127.0.0.1:{server.server_port}/v1"  # type: ignore[attr-defined]
        return handler

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def chat(text: str, finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "one", "choices": [
        {"index": 0, "finish_reason": finish, "message": message}]}  # fmt: skip


def completion(ids: list[int] | None, tops: dict[str, float] | None) -> dict[str, Any]:
    logprobs: Any = tops and {"token_logprobs": [-1.0], "tokens": ["a"], "text_offset": [0], "top_logprobs": [tops]}
    choice = {"index": 0, "finish_reason": "length", "text": "a", "logprobs": logprobs, "token_ids": ids}
    return {"id": "x", "object": "text_completion", "created": 0, "model": "one", "choices": [choice]}


BROKEN = (500, {"error": {"message": "the engine is busy"}})


def pair(server: Server) -> dict[str, Seat]:
    return {"meta_0": ScriptedSeat(["Answer. [FINISH]"]), "reasoner_0": RemoteSeat(server, SamplingParams(5))}


def play_one(url: str, **settings: Any) -> Any:
    server = Server(url, max_wait=0.01, **settings)
    try:
        seats = pair(server)
        return play(Watched, lambda n: seats, PROBLEMS[:1])[0]
    finally:
        server.close()


def test_a_request_that_fails_for_a_while_is_made_again_and_counts_once(script: Callable[..., Any]) -> None:
    handler = script(BROKEN, (429, {}), chat("1"))
    episode = play_one(handler.url)
    assert episode.ending is Ending.FINISHED
    assert [str(turn.message) for turn in episode.transcript.turns] == ["Answer. [FINISH]", "1"]
    assert len(handler.asked) == 3


def test_a_server_that_stays_away_ends_the_dialogue_as_aborted_with_a_warning(script: Callable[..., Any]) -> None:
    handler = script(BROKEN)
    with pytest.warns(UserWarning, match=r"did not answer in 3 attempts .*\); the dialogue ends as aborted"):
        episode = play_one(handler.url, attempts=3)
    assert episode.ending is Ending.ABORTED
    assert len(handler.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b'{"choices": [{"ind', b"", {}, [1], None, {"choices": []}, {"choices": None},
     {"error": {"message": "out of memory"}}, {"choices": [{"message": None, "finish_reason": "stop"}]},
     chat("", "abort")],
    ids=lambda answer: repr(answer)[:30],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_as_good_as_lost(script: Callable[..., Any], answer: Any) -> None:
    handler = script(answer, chat("1"))
    assert play_one(handler.url).ending is Ending.FINISHED
    assert len(handler.asked) == 2
    with pytest.warns(UserWarning, match="did not answer in 2 attempts .its answer cannot be read"):
        assert play_one(script(answer).url, attempts=2).ending is Ending.ABORTED


@pytest.mark.parametrize(
    "change",
    [{"token_ids": None}, {"logprobs": None}, {"token_ids": [5, 6]}, {"finish_reason": "abort"},
     {"logprobs": {"token_logprobs": [None]}}, {"logprobs": {"token_logprobs": [float("nan")]}}],
    ids=repr,
)  # fmt: skip
def test_tokens_without_their_log_probabilities_are_as_good_as_lost(
    script: Callable[..., Any], change: dict[str, Any]
) -> None:
    whole = completion([5], {"a": -1.5, "b": -1.8})
    broken = {**whole, "choices": [{**whole["choices"][0], **change}]}
    sampler = RemoteSampler(script(completion([5], {"a": -1.0, "b": -2.0}), whole, broken).url, attempts=1)
    with pytest.warns(UserWarning, match="its answer cannot be read"):
        (got,) = ask_all(sampler, [(PROMPTS[0], params(max_tokens=1))])
    for _ in range(2):
        sampler.close()
    assert (got.finish, got.token_ids, got.logps) == (Finish.ABORTED, (), ())


def test_a_server_that_is_too_slow_ends_the_dialogue_as_aborted(script: Callable[..., Any]) -> None:
    handler = script(chat("1"), delay=0.5)
    with pytest.warns(UserWarning, match="did not answer in 2 attempts"):
        assert play_one(handler.url, attempts=2, timeout=0.1, model="one").ending is Ending.ABORTED


def test_a_request_that_the_server_refuses_is_an_error_and_not_made_again(script: Callable[..., Any]) -> None:
    handler = script((400, {"error": {"message": "max_tokens is too large"}}))
    with pytest.raises(ValueError, match=r"refuses the request.*max_tokens is too large"):
        play_one(handler.url)
    assert len(handler.asked) == 1


@pytest.mark.parametrize(
    "told",
    [
        {"error": {"message": "This model's maximum context length is 256 tokens. However, your prompt contains 257"}},
        {"error": {"message": "the request exceeds the available context size, try increasing it"}},
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 256"},
    ],
    ids=["vLLM", "llama.cpp", "TGI"],
)
def test_a_chat_that_the_server_has_no_room_for_ends_the_dialogue_as_context_full(
    script: Callable[..., Any], told: Any
) -> None:
    assert play_one(script((400, told)).url).ending is Ending.CONTEXT_FULL


def test_a_frozen_seat_sends_the_chat_and_keeps_reasoning_apart(script: Callable[..., Any]) -> None:
    handler = script(chat("<think>easy</think>1", "length"))
    episode = play_one(handler.url)
    assert episode.transcript.turns[-1].message == Message("1", Finish.LENGTH, "easy")
    ((path, asked),) = handler.asked
    assert path == "/v1/chat/completions"
    assert [m["role"] for m in asked["messages"]] == ["user"]
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == ("one", 5, 1.0)


def test_no_more_requests_are_made_at_once_than_allowed(script: Callable[..., Any]) -> None:
    handler = script(chat("1"), delay=0.05)
    server = Server(handler.url, max_concurrency=2)
    seats = pair(server)
    started = time.monotonic()
    play(Watched, lambda n: seats, PROBLEMS)
    server.close()
    assert time.monotonic() - started >= 0.05 * len(PROBLEMS) / 2


@pytest.mark.parametrize(
    "answer", [completion(None, {"a": -1.0}), (400, {}), (404, {}), (405, {}), (422, {}), (501, {})]
)
def test_a_server_without_token_ids_is_for_frozen_seats_only(script: Callable[..., Any], answer: Any) -> None:
    with pytest.raises(NoTokenIds, match=r"gives no token ids.*frozen seats and evaluation only"):
        RemoteSampler(script(answer).url)


@pytest.mark.parametrize(
    ("tops", "gives"),
    [
        ([{"a": -1.0, "b": -2.0}, {"a": -1.5, "b": -1.8}], True),
        ([{"a": -1.0, "b": -2.0}, {"a": -1.0, "c": -2.0}], False),
        ([None, None], False),
    ],
    ids=["after temperature", "before temperature", "none"],
)
def test_log_probabilities_count_only_where_they_change_with_the_temperature(
    script: Callable[..., Any], tops: list[Any], gives: bool
) -> None:
    sampler = RemoteSampler(script(*(completion([5], t) for t in tops)).url)
    try:
        assert sampler.gives_logps is gives
        (got,) = ask_all(sampler, [(PROMPTS[0], params(max_tokens=1))])
        assert (got.token_ids, got.logps, got.finish) == ((5,), (-1.0,) if gives else (), Finish.LENGTH)
        with pytest.raises(ValueError, match=r"frozen seats and evaluation only: training needs .*take weights"):
            sampler.check_trainable()
        with pytest.raises(ValueError, match="training needs"):
            sampler.update_weights([], 1)
    finally:
        sampler.close()


def test_an_unreachable_server_and_an_unnamed_model_are_said_at_start(script: Callable[..., Any]) -> None:
    with (
        pytest.warns(UserWarning, match=r"did not answer in 2 attempts \(Connection error.\)$"),
        pytest.raises(ValueError, match=f"nobody answers at http://127.0.0.1:{free_port()}"[:30]),
    ):
        Server(f"http://127.0.0.1:{free_port()}/v1", attempts=2, max_wait=0.01)
    with pytest.raises(ValueError, match="lists the models one, two: name one"):
        Server(script(chat(""), models=2).url)
