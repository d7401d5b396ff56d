"""A dialogue's rules as data: who speaks next, who sees what, how it ends.

The paper's four processes (ReMA, arXiv:2503.09501, sections 2.1 and 3.1) are four values of `Process`; a third agent or
another order of speaking is a fifth, in anyone's package. Everything here is a pure function of a transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rema_env.roles import FINISH_FLAG
from rema_env.transcript import Ending, Message, Problem, Transcript, Turn

META = "meta"
REASONER = "reasoner"


def agent_of(role: str) -> str:
    """The agent that plays a role: `meta` is played by `meta_0`."""
    return f"{role}_0"


_META_0, _REASONER_0 = agent_of(META), agent_of(REASONER)

ChatMessage = dict[str, str]
Shown = Callable[[Problem, str], str]


@dataclass(frozen=True)
class Process:
    """The rules of one kind of dialogue.

    Attributes:
        name: how it is called in arguments, flags and run folders.
        roles: every role that may speak; the first opens each round. Role `meta` is played by the agent `meta_0`.
        next_speaker: the role whose turn it is.
        view: the chat a role sees, without its system prompt: `{"role": "user" | "assistant", "content": str}`.
        ending: `FINISHED` or `INVALID_ACTION` where the last turn ended the dialogue by the rules, else None. Limits
            (rounds, cut messages) are the environment's and need no word here.
        answerer: the role whose last message is graded; by default the last of `roles`.
        turns_per_round: the most turns that one round can have; by default one for each role.
    """

    name: str
    roles: tuple[str, ...]
    next_speaker: Callable[[Transcript], str]
    view: Callable[[Transcript, str], Sequence[ChatMessage]]
    ending: Callable[[Transcript], Ending | None]
    answerer: str = ""
    turns_per_round: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.roles, str) or not self.roles or len(set(self.roles)) != len(self.roles):
            raise ValueError(f"process {self.name!r} needs roles, each named once, got {self.roles!r}")
        for role in self.roles:
            if not (isinstance(role, str) and role.isascii() and role.isalpha() and role.islower()):
                raise ValueError(f"process {self.name!r}: a role is named in lower-case letters a-z, got {role!r}")
        if self.answerer and self.answerer not in self.roles:
            raise ValueError(f"process {self.name!r}: answerer {self.answerer!r} is none of its roles {self.roles}")
        for what in ("next_speaker", "view", "ending"):
            if not callable(getattr(self, what)):
                raise ValueError(f"process {self.name!r}: {what} is a function, got {getattr(self, what)!r:.40}")
        if not isinstance(self.turns_per_round, int) or self.turns_per_round < 0:
            raise ValueError(f"process {self.name!r}: turns_per_round is a whole number, got {self.turns_per_round!r}")
        object.__setattr__(self, "answerer", self.answerer or self.roles[-1])
        object.__setattr__(self, "turns_per_round", self.turns_per_round or len(self.roles))

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that play the roles, in order: `meta_0`, `reasoner_0`."""
        return tuple(map(agent_of, self.roles))


def question_only(problem: Problem, role: str) -> str:
    """What a role is shown of the problem: the question, and the same for every role."""
    return problem.question


def in_turn(roles: tuple[str, ...], transcript: Transcript) -> str:
    """Every role speaks once a round, in the order of `roles`."""
    return roles[len(transcript.turns) % len(roles)]


def as_chat(opening: str, turns: Sequence[Turn], role: str) -> list[ChatMessage]:
    """A dialogue as one role lived it: its own messages are the assistant's, all others the user's.

    Neighbours of one chat role are joined by a blank line, since many chat templates demand that the two alternate.

    Args:
        opening: the first user message.
        turns: what was said after it.
        role: whose chat it is.
    """
    chat, last = [{"role": "user", "content": opening}], "user"
    own = agent_of(role)
    for turn in turns:
        speaker = "assistant" if turn.agent == own else "user"
        if speaker == last:
            chat[-1]["content"] += f"\n\n{turn.message}"
        else:
            chat.append({"role": speaker, "content": str(turn.message)})
            last = speaker
    return chat


def pair_view(transcript: Transcript, role: str, *, shown: Shown) -> list[ChatMessage]:
    """What each of the two agents sees.

    The meta-thinker reads the question; the reasoner's first message holds question and first instruction.
    """
    question = shown(transcript.problem, role)
    if role == META:
        return as_chat(question, transcript.turns, role)
    return as_chat(_instruction(question, transcript.turns[:1]), transcript.turns[1:], role)


def _instruction(question: str, first: Sequence[Turn]) -> str:
    """Question and instruction as one message; an empty instruction is not shown."""
    return f"Question:\n{question}" + "".join(f"\n\nInstruction:\n{turn.message}" for turn in first if turn.message)


def solo_view(transcript: Transcript, role: str, *, shown: Shown) -> list[ChatMessage]:
    """What an agent sees that works alone: the question after a short lead-in."""
    return as_chat(f"Question:\n{shown(transcript.problem, role)}", transcript.turns, role)


def flagged(transcript: Transcript) -> Ending | None:
    """Finished once the reasoner has answered a message that the meta-thinker ended with the finish flag."""
    if len(transcript.turns) < 2:
        return None
    plan, reply = transcript.turns[-2:]
    closed = reply.agent == _REASONER_0 and plan.agent == _META_0 and FINISH_FLAG.ends(plan.message)
    return Ending.FINISHED if closed else None


def answered(transcript: Transcript) -> Ending | None:
    """Finished as soon as the reasoner has spoken."""
    return Ending.FINISHED if transcript.turns and transcript.turns[-1].agent == _REASONER_0 else None


def final_message(process: Process, transcript: Transcript) -> Message | None:
    """The message that is graded: the answerer's last one that was really said; None where it never spoke."""
    agent = agent_of(process.answerer)
    for turn in reversed(transcript.turns):
        if turn.agent == agent and turn.was_said:
            return turn.message
    return None


def multi_turn(shown: Shown = question_only) -> Process:
    """Meta-thinker and reasoner take turns until the meta-thinker's flag; then the reasoner answers (Eq. 6)."""
    roles = (META, REASONER)
    return Process("multi_turn", roles, partial(in_turn, roles), partial(pair_view, shown=shown), flagged)


def single_turn(shown: Shown = question_only) -> Process:
    """One plan, one solution (Eq. 5)."""
    roles = (META, REASONER)
    return Process("single_turn", roles, partial(in_turn, roles), partial(pair_view, shown=shown), answered)


def mrp(shown: Shown = question_only) -> Process:
    """One agent writes a plan and its solution in one message (Eq. 3)."""
    roles = (REASONER,)
    return Process("mrp", roles, partial(in_turn, roles), partial(solo_view, shown=shown), answered)


def vrp(shown: Shown = question_only) -> Process:
    """One agent solves step by step, the plain chain of thought (Eq. 1)."""
    roles = (REASONER,)
    return Process("vrp", roles, partial(in_turn, roles), partial(solo_view, shown=shown), answered)


PROCESSES: dict[str, Callable[[Shown], Process]] = {
    "multi_turn": multi_turn,
    "single_turn": single_turn,
    "mrp": mrp,
    "vrp": vrp,
}


def process_named(name: str | Process, shown: Shown = question_only) -> Process:
    """One of the paper's processes by name; a `Process` is handed back as it is.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(name, Process):
        return name
    if not isinstance(name, str) or name not in PROCESSES:
        raise ValueError(f"unknown process {name!r}; there are {', '.join(PROCESSES)}")
    return PROCESSES[name](shown)
