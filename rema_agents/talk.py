"""python -m rema_agents.talk: ask a trained pair a question, or play one of the seats by hand.

python -m rema_agents.talk "Compute 3+4*2 modulo 10."             the embedded model answers
python -m rema_agents.talk --model RUN --play meta                you plan, the trained reasoner carries out
python -m rema_agents.talk --server http://localhost:8000/v1      both seats on a server, questions from the keyboard
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rema_agents.gate import Gate
from rema_agents.play import play_episode
from rema_agents.types import Episode, SamplingParams, Seat
from rema_env.render import escaping, turn_text
from rema_env.transcript import Message, Problem, Turn, role_of

EMBEDDED = "embedded"
_LIMITS = {True: {"max_rounds": 4, "max_tokens": 48}, False: {"max_rounds": 30, "max_tokens": 512}}
"""Rounds of a dialogue and tokens of a message: of the embedded model, of any other."""


class ByHand:
    """A seat for a person: shows what the agent would see last and reads one line."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """The line typed. Raises EOFError at the end of input."""
        last = observation["messages"][-1]["content"]
        return Message(await asyncio.to_thread(input, f"\n{last}\n\n[{self._agent}] > "))


class Aloud:
    """Another seat, with everything it says printed as it is said."""

    def __init__(self, agent: str, seat: Seat) -> None:
        self._agent, self._seat = agent, seat

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message:
        """What the other seat says."""
        said = await self._seat.say(observation, gate=gate)
        message = said if isinstance(said, Message) else Message(said)
        print(turn_text(Turn(self._agent, message)), flush=True)
        return message


def model_seats(
    model: str, server: str | None, params: SamplingParams, agents: Sequence[str]
) -> Callable[[], dict[str, Seat]]:
    """Load what the agents need, once; the function makes fresh seats for a dialogue."""
    if server is not None:
        from rema_agents.remote import RemoteSeat
        from rema_agents.server import Server

        connection = Server(server)
        return lambda: {agent: RemoteSeat(connection, params) for agent in agents}
    from transformers.utils.logging import disable_progress_bar

    from rema_agents.chat import ChatCodec
    from rema_agents.hf import HFSampler
    from rema_agents.seat import LMSeat

    disable_progress_bar()
    folders = {agent: folder_of(model, role_of(agent)) for agent in agents}
    loaded = {f: (ChatCodec.from_pretrained(f), HFSampler.from_pretrained(f)) for f in set(folders.values())}

    def seat(agent: str) -> Seat:
        codec, sampler = loaded[folders[agent]]
        longest = None if sampler.room is None else sampler.room - params.max_tokens
        return LMSeat(agent, codec, sampler, params, max_prompt_length=longest)

    return lambda: {agent: seat(agent) for agent in agents}


def folder_of(model: str, role: str) -> Path:
    """The model folder of one role: `model` itself, or what a run or checkpoint keeps for the role or for all.

    Raises:
        ValueError: there is none.
    """
    if model == EMBEDDED:
        from rema_agents.tiny import MODEL_FOLDER

        return MODEL_FOLDER
    path = Path(model)
    for folder in (path, *(path / part / name for part in ("final", "best", "") for name in (role, "policy"))):
        if (folder / "config.json").is_file():
            return folder
    raise ValueError(f"{model} holds no model for {role}: name a model folder, a checkpoint or a run with final/")


def terse(model: str) -> bool:
    """Whether the embedded model's short prompts and limits apply: to itself, and to a run that trained it."""
    config = Path(model, "config.yaml")
    return model == EMBEDDED or (config.is_file() and "system_prompts: embedded" in config.read_text())


def converse(arguments: argparse.Namespace, question: str, seats: Mapping[str, Seat]) -> Episode:
    """One dialogue about a question, printed as it goes on."""
    import rema_env
    from rema_agents.tiny import SYSTEM_PROMPTS

    prompts = SYSTEM_PROMPTS.get(arguments.process) if terse(arguments.model) else None
    env = rema_env.math_v0(max_rounds=arguments.max_rounds, process=arguments.process, system_prompts=prompts)
    try:
        return asyncio.run(play_episode(env, seats, Problem("asked", question, arguments.answer)))
    finally:
        env.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Talk until the questions end. Returns the exit code."""
    parser = argparse.ArgumentParser(
        "python -m rema_agents.talk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="?", help="without one, questions are read from the keyboard")
    parser.add_argument("--model", default=EMBEDDED, help="a model folder, a checkpoint or a run (embedded)")
    parser.add_argument("--server", help="an OpenAI-compatible server for the models' seats")
    parser.add_argument("--play", choices=["meta", "reasoner"], help="the seat that you play by hand")
    parser.add_argument("--process", default="multi_turn", help="multi_turn, single_turn, mrp or vrp")
    parser.add_argument("--answer", default="", help="the golden answer, to have the dialogue graded")
    parser.add_argument("--max-rounds", type=int, help="rounds of a dialogue (30; embedded: 4)")
    parser.add_argument("--max-tokens", type=int, help="tokens of a message (512; embedded: 48)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples (0)")
    arguments = parser.parse_args(argv)
    escaping(sys.stdout)
    for name, value in _LIMITS[terse(arguments.model) and arguments.server is None].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
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
    params = SamplingParams(arguments.max_tokens, arguments.temperature, seed=arguments.seed)
    by_hand = [f"{arguments.play}_0"] if arguments.play else []
    agents = [a for a in ("meta_0", "reasoner_0") if a not in by_hand]
    fresh_seats = model_seats(arguments.model, arguments.server, params, agents)
    while True:
        question = arguments.question or input("question > ")
        seats: dict[str, Seat] = {agent: Aloud(agent, seat) for agent, seat in fresh_seats().items()}
        seats |= {agent: ByHand(agent) for agent in by_hand}
        episode = converse(arguments, question, seats)
        graded = f", graded {episode.info['outcome']}" if episode.info.get("outcome") else ""
        print(f"({episode.ending}{graded})")
        if arguments.question:
            return 0


if __name__ == "__main__":
    raise SystemExit(main())
