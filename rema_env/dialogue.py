"""The PettingZoo environment over any `Process`: it keeps PettingZoo's books and asks the process.

All that decides an episode (who speaks, who sees what, how it ends, what it pays) is a pure function of the transcript,
so a dialogue that is continued from a transcript is the dialogue that was played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypedDict

import numpy as np
from gymnasium.spaces import Dict, Discrete, Space
from pettingzoo import AECEnv

from rema_env.problems import Problems
from rema_env.process import Process, agent_of, final_message
from rema_env.render import closing, heading, transcript_text, turn_text
from rema_env.rewards import ANSWER, Graded, Reward, UnfinishedReward, as_paid, paid_to
from rema_env.roles import BOX, Tag
from rema_env.roles import system_prompts as prompts_of
from rema_env.spaces import MAX_CHARACTERS, Chat, FreeText, valid_unicode
from rema_env.terms import as_rewards
from rema_env.transcript import Ending, Finish, Grade, Message, Problem, Transcript, problem_from_json

DEFAULT_MAX_ROUNDS = 30

Grader = Callable[[Problem, str], Grade]
OnCut = Literal["end", "continue"]


class Settings(TypedDict, total=False):
    """The arguments that every text environment of this package takes; `DialogueEnv` explains them."""

    rewards: Sequence[Reward] | Mapping[str, float]
    system_prompts: Mapping[str, str | None] | None
    max_rounds: int | None
    max_cycles: int | None
    on_cut: OnCut
    unfinished_reward: UnfinishedReward
    render_mode: str | None


@dataclass(frozen=True)
class Limits:
    """What ends a dialogue from outside its rules: the number of rounds, and a cut message (`on_cut="end"`)."""

    max_rounds: int = DEFAULT_MAX_ROUNDS
    on_cut: OnCut = "end"

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ValueError(f"max_rounds must be at least 1, got {self.max_rounds}")
        if self.on_cut not in ("end", "continue"):
            raise ValueError(f"on_cut must be end or continue, got {self.on_cut!r}")


def ending_of(process: Process, transcript: Transcript, limits: Limits) -> Ending | None:
    """How a dialogue ended with its last turn; None while it goes on.

    A lost or overfull seat ends it at once, a cut message does under `on_cut="end"`. A dialogue that is over, by its
    rules or by the limit on rounds, with a last message that was cut counts as `MESSAGE_LIMIT` in any case.
    """
    if not transcript.turns:
        return None
    finish = transcript.turns[-1].message.finish
    if finish is Finish.STOP:
        return process.ending(transcript) or _round_limit(process, transcript, limits.max_rounds)
    if finish is Finish.ABORTED:
        return Ending.ABORTED
    if finish is Finish.CONTEXT_FULL:
        return Ending.CONTEXT_FULL
    if limits.on_cut == "end":
        return Ending.MESSAGE_LIMIT
    ending = process.ending(transcript) or _round_limit(process, transcript, limits.max_rounds)
    return Ending.MESSAGE_LIMIT if ending in (Ending.FINISHED, Ending.ROUND_LIMIT) else ending


def _round_limit(process: Process, transcript: Transcript, max_rounds: int) -> Ending | None:
    """`ROUND_LIMIT` where the opening role would start one round too many, or the rounds' turns are used up."""
    turns = transcript.turns
    if len(turns) < max_rounds:
        return None
    if len(turns) >= max_rounds * process.turns_per_round:
        return Ending.ROUND_LIMIT
    opener = process.roles[0]
    begun = sum(turn.role == opener for turn in turns)
    over = begun >= max_rounds and process.next_speaker(transcript) == opener
    return Ending.ROUND_LIMIT if over else None


def as_message(agent: str, action: object) -> Message:
    """What a live agent said, as it is kept.

    Lone surrogates are replaced; text longer than the action space allows is cut there and counts as cut.

    Raises:
        TypeError: for anything but a `str` (a `Message` is one).
    """
    if not isinstance(action, str):
        raise TypeError(f"{agent} must say a str or a Message, got {type(action).__name__}: {action!r:.80}")
    text, finish, thought = valid_unicode(str(action)), Finish.STOP, ""
    if isinstance(action, Message):
        finish, thought = action.finish, valid_unicode(action.reasoning)
    if len(text) > MAX_CHARACTERS:
        text, finish = text[:MAX_CHARACTERS], Finish.LENGTH
    return Message(text, finish, thought)


class DialogueEnv(AECEnv[str, dict[str, Any], str]):
    """Agents that talk about a problem, in turns, in free text.

    Args:
        process: the rules.
        problems: where `reset` draws from; see `reset` for how.
        grade: (problem, text) -> Grade, for the final message.
        rewards: the terms each role is paid by, or term -> weight (see `rema_env.terms`); default: the answer's score.
        tag: the form of an answer, for the terms that look for it.
        default_prompts: role -> system prompt.
        system_prompts: role -> text to use instead; "" or None: that role gets no system message.
        max_rounds: rounds (one turn of each agent) before `round_limit`; default 30. `max_cycles` is the same number
            under PettingZoo's name.
        on_cut: "end": a cut message ends the dialogue with `message_limit`; "continue": it is passed on.
        unfinished_reward: what a dialogue is worth that did not finish: "zero" its answer counts as wrong; "drop"
            as graded, with `infos[agent]["dropped"]` for training to leave it out of the loss; "grade" as graded.
        render_mode: "human" prints each turn, "ansi" makes `render` return the dialogue, None.
        name: the environment's name.

    Attributes:
        transcript: all that was said, with its ending once there is one.

    Raises:
        ValueError: for a value that none of these can have.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["human", "ansi"],
        "is_parallelizable": False,
        "name": "dialogue_v0",
    }

    def __init__(
        self,
        process: Process,
        problems: Problems,
        grade: Grader,
        *,
        rewards: Sequence[Reward] | Mapping[str, float] = (ANSWER,),
        tag: Tag = BOX,
        default_prompts: Mapping[str, str] | None = None,
        system_prompts: Mapping[str, str | None] | None = None,
        max_rounds: int | None = None,
        max_cycles: int | None = None,
        on_cut: OnCut = "end",
        unfinished_reward: UnfinishedReward = "zero",
        render_mode: str | None = None,
        name: str = "dialogue_v0",
    ) -> None:
        super().__init__()
        if unfinished_reward not in ("zero", "drop", "grade"):
            raise ValueError(f"unfinished_reward must be zero, drop or grade, got {unfinished_reward!r}")
        if render_mode not in (None, "human", "ansi"):
            raise ValueError(f"render_mode must be human, ansi or None, got {render_mode!r}")
        self.process = process
        self.problems = problems
        self.grade = grade
        self.rewards_by_term = as_rewards(rewards)
        self.tag = tag
        self.system_prompts = prompts_of(default_prompts or {}, system_prompts, process.roles)
        self.limits = Limits(_one_limit(max_rounds, max_cycles), on_cut)
        self.unfinished_reward = unfinished_reward
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "name": name}  # type: ignore[misc]
        self.possible_agents = list(process.agents)
        self.state_space = Chat()
        self._role = dict(zip(process.agents, process.roles, strict=True))
        self._agent = dict(zip(process.roles, process.agents, strict=True))
        self._action_spaces = {agent: FreeText() for agent in self.possible_agents}
        last_turn = self.limits.max_rounds * process.turns_per_round
        self._observation_spaces = {
            agent: Dict({"messages": Chat(), "turn": Discrete(last_turn + 1)}) for agent in self.possible_agents
        }
        self._seed: int | None = None
        self._draws = 0
        self._printed = 0

    def observation_space(self, agent: str) -> Space[Any]:
        """`Dict(messages=Chat(), turn=Discrete)`: the agent's chat, and how many turns have been said."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """`FreeText()`."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin a dialogue.

        Args:
            seed: starts a new order of draws: the n-th reset since then draws `problems.draw(seed, n - 1)`. Without any
                seed so far, one is made up.
            options: `problem` (a `Problem` or a mapping with question and answer) is used instead of a draw;
                `transcript` (a `Transcript` or its JSON) is continued from its last turn. Unknown keys are ignored.

        Raises:
            ValueError: where the transcript cannot have come about under this environment's rules and limits.
        """
        if seed is not None or self._seed is None:
            self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
            self._draws = 0
        transcript = self._start(options or {})
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self._printed = 0
        self._settle(transcript)
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def step(self, action: str | None) -> None:
        """Say something: a `str`, or a `Message` that knows how it ended. None once the agent's dialogue is over.

        Raises:
            TypeError: for anything else from a live agent.
            ValueError: for anything but None from one whose dialogue is over.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        message = as_message(agent, action)
        self._cumulative_rewards[agent] = 0.0
        self._settle(self.transcript.said(agent, message))
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def observe(self, agent: str) -> dict[str, Any]:
        """The agent's chat, a fresh copy, its system prompt first; and the number of turns said so far."""
        role = self._role[agent]
        chat = self.process.view(self.transcript, role)
        system = self.system_prompts[role]
        first = ({"role": "system", "content": system},) if system else ()
        return {"messages": (*first, *chat), "turn": len(self.transcript.turns)}

    def state(self) -> tuple[dict[str, str], ...]:
        """All of the dialogue at once: the question, then every turn under its agent's name."""
        question = {"role": "user", "content": self.transcript.problem.question}
        said = ({"role": "assistant", "content": f"{t.agent}: {t.message}"} for t in self.transcript.turns)
        return (question, *said)

    def render(self) -> str | None:
        """The dialogue so far as text ("ansi"), or its new turns on the terminal ("human")."""
        if self.render_mode == "ansi":
            return transcript_text(self.transcript)
        if self.render_mode == "human":
            self._print_news()
        return None

    def close(self) -> None:
        """Nothing to let go of: the grading workers belong to the process and serve every environment in it."""

    def _start(self, options: Mapping[str, Any]) -> Transcript:
        if (given := options.get("transcript")) is not None:
            transcript = given if isinstance(given, Transcript) else Transcript.from_json(given)
            return check_continues(replace(transcript, ending=None), self.process, self.limits)
        if (given := options.get("problem")) is not None:
            problem = given if isinstance(given, Problem) else problem_from_json(given)
        else:
            problem = self.problems.draw(self._seed or 0, self._draws)
            self._draws += 1
        question = valid_unicode(problem.question)
        return Transcript(problem if question is problem.question else replace(problem, question=question))

    def _settle(self, transcript: Transcript) -> None:
        """Bring the books up to a transcript: whose turn it is, or what it paid and how it ended."""
        ending = ending_of(self.process, transcript, self.limits)
        if ending is None:
            self.transcript = transcript
            self.agent_selection = self._next_agent(transcript)
            self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
            return
        self.transcript = transcript.ended(ending)
        self._pay(Graded(self.transcript, self._graded(self.transcript), self.process.answerer, self.tag))
        self.terminations = dict.fromkeys(self.agents, ending.terminated)
        self.truncations = dict.fromkeys(self.agents, not ending.terminated)
        self.agent_selection = self.agents[0]
        self._deads_step_first()

    def _next_agent(self, transcript: Transcript) -> str:
        role = self.process.next_speaker(transcript)
        if role not in self._agent:
            raise ValueError(f"process {self.process.name!r} calls on {role!r}; its roles are {self.process.roles}")
        return self._agent[role]

    def _graded(self, transcript: Transcript) -> Grade | None:
        final = final_message(self.process, transcript)
        if final is None or not transcript.problem.answer:
            return None
        return self.grade(transcript.problem, str(final))

    def _pay(self, graded: Graded) -> None:
        grade, ending = graded.grade, graded.transcript.ending
        unfinished = ending is not Ending.FINISHED
        paid = as_paid(graded, self.unfinished_reward)
        pay = {agent: paid_to(self._role[agent], paid, self.rewards_by_term) for agent in self.agents}
        self.rewards = {agent: float(reward) for agent, (reward, _) in pay.items()}
        self.infos = {
            agent: {
                "ending": str(ending),
                "outcome": None if grade is None else str(grade.outcome),
                "score": None if grade is None else float(grade.score),
                "extracted": None if grade is None else grade.extracted,
                "terms": pay[agent][1],
                "dropped": ending is Ending.ABORTED or (unfinished and self.unfinished_reward == "drop"),
            }
            for agent in self.agents
        }

    def _print_news(self) -> None:
        transcript = self.transcript
        if not self._printed:
            print(heading(transcript))
        for turn in transcript.turns[max(self._printed - 1, 0) :]:
            print(turn_text(turn))
        if transcript.ending is not None and self._printed <= len(transcript.turns):
            print(closing(transcript, self.rewards))
        self._printed = len(transcript.turns) + 1


def check_continues(transcript: Transcript, process: Process, limits: Limits) -> Transcript:
    """The transcript itself, where it can have come about under these rules.

    Raises:
        ValueError: naming the first turn that a dialogue of this process could not have had.
    """
    so_far = replace(transcript, turns=())
    for k, turn in enumerate(transcript.turns):
        if (ending := ending_of(process, so_far, limits)) is not None:
            raise ValueError(f"the transcript goes on after its end: turn {k} follows {ending}")
        if turn.agent != (expected := agent_of(process.next_speaker(so_far))):
            raise ValueError(f"turn {k} of the transcript is {turn.agent}'s, but it is {expected}'s turn")
        so_far = so_far.said(turn.agent, as_message(turn.agent, turn.message))
    return so_far


def _one_limit(max_rounds: int | None, max_cycles: int | None) -> int:
    if max_rounds is not None and max_cycles is not None and max_rounds != max_cycles:
        raise ValueError(f"max_rounds and max_cycles name one limit, got {max_rounds} and {max_cycles}")
    given = max_rounds if max_rounds is not None else max_cycles
    return DEFAULT_MAX_ROUNDS if given is None else given
