r"""What each role is told, and the tags it is told to use.

One object stands behind a tag everywhere: the prompt shows its `text` or `example`, and the check that looks for it is
its method. So what a prompt asks for and what is checked cannot drift apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Tag(Protocol):
    """The form that an answer has: what prompts show and what checks look for."""

    def example(self, answer: str) -> str:
        """An answer in this form."""
        ...

    def holds(self, message: str) -> bool:
        """True where the message gives an answer in this form."""
        ...

    def appears(self, message: str) -> bool:
        """True where the form occurs at all, as it must not in a plan."""
        ...


@dataclass(frozen=True)
class FinishFlag:
    """The tag with which the meta-thinker closes a dialogue."""

    text: str = "[FINISH]"

    def ends(self, message: str) -> bool:
        """True where the message ends with the flag and whitespace or nothing stands before it.

        Trailing whitespace does not count. A flag that is quoted, or that text follows, closes nothing.
        """
        body = message.rstrip()
        if not body.endswith(self.text):
            return False
        before = body[: -len(self.text)]
        return not before or before[-1].isspace()


@dataclass(frozen=True)
class Box:
    r"""The command that holds an answer: `\boxed{}`."""

    command: str = r"\boxed"

    @property
    def text(self) -> str:
        """The empty box, as prompts name it."""
        return self.command + "{}"

    def example(self, answer: str) -> str:
        """An answer in its box."""
        return f"{self.command}{{{answer}}}"

    def holds(self, message: str) -> bool:
        """True where the message has a box with something in it."""
        return re.search(re.escape(self.command) + r"\s*\{\s*[^\s}]", message) is not None

    def appears(self, message: str) -> bool:
        """True where the command occurs, with or without an answer."""
        return self.command in message


@dataclass(frozen=True)
class VerdictTag:
    """The verdict on two answers: `[[A]]` or `[[B]]`."""

    sides: tuple[str, str] = ("A", "B")

    def example(self, side: str) -> str:
        """The verdict for one side."""
        return f"[[{side}]]"

    @property
    def text(self) -> str:
        """Both verdicts, as prompts name them."""
        return " or ".join(map(self.example, self.sides))

    def holds(self, message: str) -> bool:
        """True where the message has exactly one verdict and ends with it, but for closing marks."""
        found = list(re.finditer("|".join(re.escape(self.example(side)) for side in self.sides), message))
        return len(found) == 1 and not message[found[0].end() :].strip(" \t\r\n.*_`")

    def appears(self, message: str) -> bool:
        """True where any verdict occurs."""
        return any(self.example(side) in message for side in self.sides)


@dataclass(frozen=True)
class Blocks:
    """Blocks that a message is made of, each once and in this order: `<think>...</think><answer>...</answer>`.

    Attributes:
        names: the blocks; the last one holds the answer.
    """

    names: tuple[str, ...] = ("think", "answer")

    def example(self, answer: str) -> str:
        """A message in this form."""
        *before, last = self.names
        return "".join(f"<{name}>...</{name}>" for name in before) + f"<{last}>{answer}</{last}>"

    def holds(self, message: str) -> bool:
        """True where each tag occurs exactly once, in order, no block is empty and nothing stands outside of them."""
        rest = message
        for name in self.names:
            before, opened, rest = rest.partition(f"<{name}>")
            body, closed, rest = rest.partition(f"</{name}>")
            if before.strip() or not opened or not closed or not body.strip():
                return False
        tags = [f"<{slash}{name}>" for name in self.names for slash in ("", "/")]
        return not rest.strip() and all(message.count(tag) == 1 for tag in tags)

    def appears(self, message: str) -> bool:
        """True where the block of the answer is opened."""
        return f"<{self.names[-1]}>" in message


FINISH_FLAG = FinishFlag()
BOX = Box()
VERDICT = VerdictTag()

_FINAL = f"put your final answer in {BOX.text}, as in {BOX.example('42')}"

MATH_PROMPTS: Mapping[str, Mapping[str, str]] = {
    "multi_turn": {
        "meta": (
            "You are the meta-thinker in a conversation about a math problem. Your partner, the reasoner, does all"
            " calculation and proof; you do the high-level thinking that a person would do about how to get there.\n"
            "In each message, say what to do next and why: explore different angles, split the problem into smaller"
            " steps, look back at what the reasoner found and question it, go back when a path fails, or ask for"
            " another solution to compare with. Do not work out the steps yourself and do not state the answer.\n"
            "When you are convinced that the solution is right and complete, confirm it, ask the reasoner to state the"
            f" final answer, and end that message with {FINISH_FLAG.text}. Write {FINISH_FLAG.text} nowhere else."
        ),
        "reasoner": (
            "You are the reasoner in a conversation about a math problem. Your partner, the meta-thinker, tells you"
            " what to do next.\nFollow each instruction and reason step by step, showing the work that it asks for and"
            " no more."
            f" Only when you are asked to state the final answer, {_FINAL}."
        ),
    },
    "single_turn": {
        "meta": (
            "You teach a weaker solver how to approach math problems. First think about the problem. Then write one"
            " instruction for the solver: a clear high-level plan, in steps, that leads to the solution.\n"
            "The solver does the calculation. Your instruction must not contain the answer: you are penalised if it"
            f" does, and for writing {BOX.text} anywhere in it."
        ),
        "reasoner": (
            "You solve math problems. With each problem comes an instruction. Follow it exactly, reason step by step,"
            f" and {_FINAL}."
        ),
    },
    "mrp": {
        "reasoner": (
            "You are an expert in mathematics. First write a high-level plan for the problem, as an instruction to"
            f" yourself. Then follow the plan, showing every step, and {_FINAL}."
        ),
    },
    "vrp": {
        "reasoner": f"You are an expert in mathematics. Solve the problem step by step and {_FINAL}.",
    },
}

_VERDICT = (
    f"State which answer is better as the very end of your message: {VERDICT.example('A')} if answer A is better,"
    f" {VERDICT.example('B')} if answer B is. There are no ties"
)
_FAIR = "Do not let the order of the answers, their length or the names in them influence you."

JUDGE_PROMPTS: Mapping[str, Mapping[str, str]] = {
    "multi_turn": {
        "meta": (
            "You are the meta-thinker in a conversation that judges two answers to a user's question. You see only the"
            " question; your partner, the judge, sees both answers.\nIn each message, tell the judge what to examine"
            " next and by which criteria, look back at its findings and question them. Do not guess which answer is"
            f" better. When the findings suffice, ask for the verdict and end that message with {FINISH_FLAG.text}."
            f" Write {FINISH_FLAG.text} nowhere else."
        ),
        "reasoner": (
            "You are an impartial judge of two answers, A and B, to a user's question. Your partner, the meta-thinker,"
            f" tells you what to examine. Follow its instructions and report what you find. {_FAIR}\nOnly when you are"
            f" asked for the verdict, give it. {_VERDICT}."
        ),
    },
    "single_turn": {
        "meta": (
            "You plan how two answers to a user's question will be judged. You see only the question. Write an"
            " evaluation plan: what a good answer must have, what to check step by step, and how to weigh it. You may"
            " add a reference answer. The plan goes to a judge who sees both answers; do not guess which one is better."
        ),
        "reasoner": (
            "You are an impartial judge of two answers, A and B, to a user's question. With them comes an evaluation"
            f" plan. Follow the plan without repeating it. {_FAIR} {_VERDICT}."
        ),
    },
    "mrp": {
        "reasoner": (
            "You are an impartial judge of two answers, A and B, to a user's question. First write an evaluation plan"
            f" between [PLAN] and [/PLAN], with a reference answer if it helps. Then carry it out. {_FAIR} {_VERDICT}."
        ),
    },
    "vrp": {
        "reasoner": (
            "You are an impartial judge of two answers, A and B, to a user's question. Compare them and explain briefly"
            f" which one serves the user better. {_FAIR} {_VERDICT}."
        ),
    },
}

_SHORT = f"give the answer in as few words as possible in {BOX.text}, as in {BOX.example('Paris')}"

QA_PROMPTS: Mapping[str, Mapping[str, str]] = {
    "multi_turn": {
        "meta": (
            "You are the meta-thinker in a conversation that answers a question. Your partner, the reasoner, finds the"
            " facts. In each message, say which fact or step is needed next, and question what does not fit. Do not"
            " state the answer yourself. When it is settled, ask the reasoner to state it, and end that message with"
            f" {FINISH_FLAG.text}. Write {FINISH_FLAG.text} nowhere else."
        ),
        "reasoner": (
            "You are the reasoner in a conversation that answers a question. Your partner, the meta-thinker, tells"
            f" you what to find out. Do that and no more. Only when you are asked to state the answer, {_SHORT}."
        ),
    },
    "single_turn": {
        "meta": (
            "You plan how a question can be answered. Write one instruction for a solver: which facts and steps lead"
            " to the answer, in which order. The instruction must not contain the answer."
        ),
        "reasoner": f"You answer questions. With each comes an instruction. Follow it step by step and {_SHORT}.",
    },
    "mrp": {"reasoner": f"You answer questions. First write a plan, then follow it step by step and {_SHORT}."},
    "vrp": {"reasoner": f"You answer questions. Think step by step and {_SHORT}."},
}


def system_prompts(
    defaults: Mapping[str, str], given: Mapping[str, str | None] | None, roles: tuple[str, ...]
) -> dict[str, str]:
    """Each role's system prompt: what was given, else the default, else none.

    Args:
        defaults: the environment's own prompts.
        given: role -> text. `""` or None means that the role gets no system message.
        roles: the roles of the process.

    Returns:
        The text of each role; "" where it has no system message.

    Raises:
        ValueError: where a role is named that the process does not have, or a prompt is no text.
    """
    if not isinstance(given or {}, Mapping):
        raise ValueError(f"system_prompts is a mapping from role to text, got {given!r:.60}")
    given = dict(given or {})
    if wrong := [role for role, text in given.items() if not isinstance(text, (str, type(None)))]:
        raise ValueError(f"the system prompt of {wrong[0]!r} must be text or None, got {given[wrong[0]]!r:.60}")
    if unknown := sorted(set(given) - set(roles)):
        raise ValueError(f"system_prompts names {', '.join(unknown)}; the roles here are {', '.join(roles)}")
    return {role: (given[role] or "") if role in given else defaults.get(role, "") for role in roles}


def digest(prompts: Mapping[str, str]) -> str:
    """Sixteen hexadecimal digits that name a set of system prompts: a model folder keeps them beside the prompts."""
    text = json.dumps(dict(prompts), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
