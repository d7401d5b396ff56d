"""Meta-thinking as a choice: a message is a JSON object that names what the meta-thinker does to the question.

    {"action": "DECOMPOSE", "output": "First find x. Then ..."}

DECOMPOSE splits the question into parts, REWRITE makes it plainer, EMPTY leaves the reasoner alone with it.
Source: ReMA, arXiv:2503.09501, sections 4.2.2 and G.1.1.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal

from rema_env.process import META, ChatMessage, Process, agent_of
from rema_env.rewards import Graded, Reward
from rema_env.roles import FINISH_FLAG
from rema_env.spaces import valid_unicode
from rema_env.transcript import Ending, Message, Transcript, Turn

ACTIONS = ("DECOMPOSE", "REWRITE", "EMPTY")
View = Callable[[Transcript, str], Sequence[ChatMessage]]
Invalid = Literal["end", "pass"]

# For samplers with guided decoding. It allows what `parse` accepts, but for the rule on which outputs are empty.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"action": {"enum": list(ACTIONS)}, "output": {"type": "string"}},
    "required": ["action", "output"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class MetaAction:
    """What the meta-thinker does: one of `ACTIONS`, and its text (empty for EMPTY, and only there)."""

    action: str
    output: str


def example(action: str, output: str = "") -> str:
    """A message that is this action; prompts show it, `parse` reads it."""
    return json.dumps({"action": action, "output": output})


PROMPT = (
    "You decide how a solver is helped with a math problem. Answer with one JSON object and nothing else, in one of"
    f" these forms:\n{example('DECOMPOSE', 'the problem split into smaller problems, in order')}\n"
    f"{example('REWRITE', 'the problem told more simply and clearly')}\n{example('EMPTY')} if the solver does best"
    " alone.\nDo not solve the problem and do not state the answer."
)
CLOSING = (
    "Then read what the solver answers and help it on in the same way. When its solution is right and complete, ask it"
    f" for the final answer and end the output of that message with {FINISH_FLAG.text}."
)


def parse(message: str) -> MetaAction | None:
    """The action that a message is; None where it is none.

    Valid is a JSON object with exactly the keys action and output, an action of `ACTIONS`, and a text that is empty for
    EMPTY and not empty otherwise; nothing but whitespace around it.
    """
    try:
        found = json.loads(message, object_pairs_hook=tuple)  # as pairs: an object that names a key twice is none
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, tuple) or sorted(key for key, _ in found) != ["action", "output"]:
        return None
    action, output = dict(found)["action"], dict(found)["output"]
    if action not in ACTIONS or not isinstance(output, str):
        return None
    output = valid_unicode(output)  # an escape can stand for half a character
    return MetaAction(action, output) if bool(output.strip()) is (action != "EMPTY") else None


def with_json_actions(process: Process, invalid: Invalid = "end") -> Process:
    """The same process with a meta-thinker whose messages are actions.

    The others see an action's text; under EMPTY, or an invalid message that is let pass, they see the question alone.

    Args:
        process: rules with the role `meta`, e.g. `single_turn()`.
        invalid: whether a message that is no action ends the dialogue as `invalid_action`, or passes as EMPTY.

    Raises:
        ValueError: for a process without that role, or another word for `invalid`.
    """
    if META not in process.roles:
        raise ValueError(f"JSON actions are the meta-thinker's; process {process.name!r} has no role {META!r}")
    if invalid not in ("end", "pass"):
        raise ValueError(f"invalid must be end or pass, got {invalid!r}")
    ending = partial(_ending, process.ending, invalid)
    return replace(process, view=partial(_view, process.view), ending=ending)


def _ending(ending: Callable[[Transcript], Ending | None], invalid: Invalid, transcript: Transcript) -> Ending | None:
    last = transcript.turns[-1]
    if invalid == "end" and last.agent == agent_of(META) and parse(last.message) is None:
        return Ending.INVALID_ACTION
    return ending(_as_told(transcript))


def _view(view: View, transcript: Transcript, role: str) -> Sequence[ChatMessage]:
    return view(transcript if role == META else _as_told(transcript), role)


def _as_told(transcript: Transcript) -> Transcript:
    """The dialogue as the others see it; the flag counts where an action's text ends with it."""
    return replace(transcript, turns=tuple(map(_as_text, transcript.turns)))


def _as_text(turn: Turn) -> Turn:
    """The turn as the others see it: of an action, its text."""
    if turn.agent != agent_of(META):
        return turn
    action = parse(turn.message)
    return Turn(turn.agent, Message(action.output if action else ""))


def action_counts(transcript: Transcript) -> dict[str, int]:
    """How often each action was taken; invalid messages, but not those that were never said, count as `INVALID`."""
    found = Counter(action.action if (action := parse(m)) else "INVALID" for m in transcript.by(META))
    return {name: found[name] for name in (*ACTIONS, "INVALID")}


def level_by_action(transcripts: Iterable[Transcript]) -> dict[str, float]:
    """The mean level of the problems for which each action was taken; those whose level is no number are left out."""
    levels: dict[str, list[float]] = defaultdict(list)
    for transcript in transcripts:
        level = transcript.problem.level
        if isinstance(level, int):
            for name, count in action_counts(transcript).items():
                levels[name] += [float(level)] * count
    return {name: sum(found) / len(found) for name, found in levels.items() if found}


def invalid_share(graded: Graded, role: str) -> float:
    """The share of the role's messages that are no action, in [0, 1]."""
    said = graded.transcript.by(role)
    return sum(parse(message) is None for message in said) / max(len(said), 1)


def _taken(action: str, graded: Graded, role: str) -> float:
    return float(action_counts(graded.transcript)[action])


def action_terms(penalty: float = 0.0) -> tuple[Reward, ...]:
    """Terms for the meta-thinker: how often it took each action (logged, not paid), and its share of invalid messages.

    Args:
        penalty: what a message that is no action costs, at least 0.

    Raises:
        ValueError: for another penalty.
    """
    if isinstance(penalty, bool) or not isinstance(penalty, Real) or not 0 <= penalty < math.inf:
        raise ValueError(f"what a message that is no action costs is a number of at least 0, got {penalty!r}")
    counts = (Reward(f"action_{name.lower()}", partial(_taken, name), 0.0, (META,)) for name in ACTIONS)
    return (*counts, Reward("invalid_action", invalid_share, -penalty, (META,)))
