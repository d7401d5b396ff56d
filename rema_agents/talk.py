"""python -m rema_agents.talk: ask a trained pair a question, or play one of the seats by hand.

python -m rema_agents.talk "Compute 3+4*2 modulo 10."             the embedded model answers
python -m rema_agents.talk --model RUN --play meta                you plan, the trained reasoner carries out
python -m rema_agents.talk --server http://localhost:8000/v1      both seats on a server, questions from the keyboard

What a run was trained with holds here too, unless a flag says otherwise: environment, process, system prompts, limits,
grader, chat template arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pettingzoo import AECEnv

from rema_agents.gate import Gate
from rema_agents.models import EMBEDDED, model_folder
from rema_agents.play import play_episode
from rema_agents.trained import Trained, trained_with
from rema_agents.types import SamplingParams, Seat
from rema_env.registry import resolve
from rema_env.render import escaping, turn_text
from rema_env.transcript import Finish, Message, Problem, Turn, role_of


class ByHand:
    """A seat for a person: shows what the agent would see last and reads one line."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """The line typed. Raises EOFError at the end of input."""
        last = observation["messages"][-1]["content"]
        return Message(await asyncio.to_thread(input, f"\n{last}\n\n[{self._agent}] > "))


class Aloud:
    """Another seat, with everything it says printed as it is said, and why where it is given no room to say it.

    Args:
        room: how much it is given.
    """

    def __init__(self, agent: str, seat: Seat, room: str) -> None:
        self._agent, self._seat, self._room = agent, seat, room

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """What the other seat says."""
        said = await self._seat.say(observation, gate=gate)
        message = said if isinstance(said, Message) else Message(said)
        print(turn_text(Turn(self._agent, message)), flush=True)
        if message.finish is Finish.CONTEXT_FULL:
            print(f"the chat of {self._agent} is too long: {self._room}", flush=True)
        return message


Seats = Callable[[], dict[str, Seat]]


def server_seats(url: str, params: SamplingParams, trained: Trained, agents: Sequence[str]) -> Seats:
    """Fresh seats on a server for each dialogue."""
    from rema_agents.remote import RemoteSeat
    from rema_agents.server import Server

    connection, room = Server(url), f"its server has no room for it and {params.max_tokens} tokens more (--max-tokens)"

    def seat(agent: str) -> Seat:
        return Aloud(agent, RemoteSeat(connection, params, share_thinking=trained.share_thinking), room)

    return lambda: {agent: seat(agent) for agent in agents}


def model_seats(folders: Mapping[str, str], params: SamplingParams, trained: Trained) -> Seats:
    """Load what the agents need, once; the function makes fresh seats for a dialogue.

    Args:
        folders: agent -> model folder or hub name.

    Raises:
        ValueError: a model cannot be loaded, or has no room for an answer of that length.
    """
    from transformers.utils.logging import disable_progress_bar

    from rema_agents.chat import ChatCodec
    from rema_agents.hf import HFSampler
    from rema_agents.seat import LMSeat

    disable_progress_bar()
    template, most = trained.chat_template_kwargs, params.max_tokens
    codecs = {f: ChatCodec.from_pretrained(f, chat_template_kwargs=template) for f in set(folders.values())}
    samplers = {folder: HFSampler.from_pretrained(folder) for folder in codecs}
    for folder, sampler in samplers.items():
        if sampler.room is not None and most >= sampler.room:
            raise ValueError(f"--max-tokens {most}: {folder} takes {sampler.room} tokens, the chat included: lower it")

    def seat(agent: str) -> Seat:
        folder = folders[agent]
        room = samplers[folder].room
        longest = None if room is None else room - most
        own = LMSeat(
            agent, codecs[folder], samplers[folder], params, max_prompt_length=longest,
            share_thinking=trained.share_thinking,
        )  # fmt: skip
        return Aloud(agent, own, f"{folder} takes {room} tokens, {most} of them for the answer (--max-tokens)")

    return lambda: {agent: seat(agent) for agent in folders}


def make_env(trained: Trained) -> AECEnv:
    """The environment that a model was trained in. Raises ValueError where there is none, or none with its settings."""
    try:
        return resolve(trained.env)(**trained.arguments)
    except TypeError as error:
        raise ValueError(f"environment {trained.env} does not take these settings: {error}") from error


def asked() -> str:
    """The next line typed that is not blank. Raises EOFError at the end of input."""
    while not (line := input("question > ")).strip():
        pass
    return line


def main(argv: Sequence[str] | None = None) -> int:
    """Talk until the questions end. Returns the exit code."""
    parser = argparse.ArgumentParser(
        "python -m rema_agents.talk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="?", help="without one, questions are read from the keyboard")
    parser.add_argument("--model", help="a model folder, a checkpoint, a run or a hub name (embedded)")
    parser.add_argument("--server", help="an OpenAI-compatible server for the models' seats")
    parser.add_argument("--play", help="the role that you play by hand: meta, reasoner")
    parser.add_argument("--process", help="multi_turn, single_turn, mrp or vrp (the run's, else multi_turn)")
    parser.add_argument("--answer", default="", help="the golden answer, to have the dialogue graded")
    parser.add_argument("--max-rounds", type=int, help="rounds of a dialogue (the run's, else 30; embedded: 4)")
    parser.add_argument("--max-tokens", type=int, help="tokens of a message (the run's, else 512; embedded: 48)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples (0)")
    arguments = parser.parse_args(argv)
    escaping(sys.stdout)
    try:
        return _talk(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed: pip install 'rema-rl[train]'", file=sys.stderr)
        return 2
    except (EOFError, KeyboardInterrupt):
        print()
        return 0


def _talk(arguments: argparse.Namespace) -> int:
    model = arguments.model or (None if arguments.server else EMBEDDED)
    trained = trained_with(model, process=arguments.process, max_rounds=arguments.max_rounds)
    length = trained.max_tokens if arguments.max_tokens is None else arguments.max_tokens
    params = SamplingParams(length, arguments.temperature, seed=arguments.seed)
    env = make_env(trained)
    try:
        roles = {role_of(agent): agent for agent in env.possible_agents}
        if arguments.play is not None and arguments.play not in roles:
            raise ValueError(f"--play {arguments.play}: there is no such role; there are: {', '.join(roles)}")
        others = {agent: role for role, agent in roles.items() if role != arguments.play}
        if arguments.server:
            fresh_seats = server_seats(arguments.server, params, trained, list(others))
        else:
            folders = {agent: model_folder(str(model), role) for agent, role in others.items()}
            fresh_seats = model_seats(folders, params, trained)
        by_hand = [roles[arguments.play]] if arguments.play else []
        while True:
            question = arguments.question or asked()
            seats = fresh_seats() | {agent: ByHand(agent) for agent in by_hand}
            episode = asyncio.run(play_episode(env, seats, Problem("asked", question, arguments.answer)))
            graded = f", graded {episode.info['outcome']}" if episode.info.get("outcome") else ""
            print(f"({episode.ending}{graded})")
            if arguments.question:
                return 0
    finally:
        env.close()


if __name__ == "__main__":
    raise SystemExit(main())
