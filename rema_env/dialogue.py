"""The PettingZoo environment over any `Process`: it keeps PettingZoo's books and asks the process.

All that decides an episode (who speaks, who sees what, how it ends, what it pays) is a pure function of the transcript,
so a dialogue that is continued from a transcript is the dialogue that was played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, TypedDict

from gymnasium.spaces import Dict, Discrete, Space
from pettingzoo import AECEnv

from rema_env.limits import Limits, OnCut, as_message, as_problem, as_seed, check_continues, ending_of, rounds_of
from rema_env.problems import Problems
from rema_env.process import Process, final_message
from rema_env.render import closing, heading, transcript_text, turn_text
from rema_env.rewards import ANSWER, Graded, Reward, UnfinishedReward, as_paid, paid_to
from rema_env.roles import BOX, Tag
from rema_env.roles import system_prompts as prompts_of
from rema_env.spaces import Chat, FreeText, valid_unicode
from rema_env.terms import as_rewards
from rema_env.transcript import Ending, Grade, Problem, Transcript

Grader = Callable[[Problem, str], Grade]


class Settings(TypedDict, total=False):
    """The arguments that every text environment of this package takes; `DialogueEnv` explains them."""

    rewards: Sequence[Reward] | Mapping[str, float]
    system_prompts: Mapping[str, str | None] | None
    max_rounds: int | None
    max_cycles: int | None
    on_cut: OnCut
    unfinished_reward: UnfinishedReward
    render_mode: str | None


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
        if not isinstance(problems, Problems):
            raise ValueError(
                "problems needs name, size and draw(seed, index), as rema_env.problems.listed.Listed(name, problems)"
                f" has, got {problems!r:.60}"
            )
        if not callable(grade):
            raise ValueError(f"a grader is a function (problem, text) -> Grade, got {grade!r:.60}")
        self.process = process
        self.problems = problems
        self.grade = grade
        self.rewards_by_term = as_rewards(rewards, process.roles)
        self.tag = tag
        prompts = prompts_of(default_prompts or {}, system_prompts, process.roles)
        self.system_prompts = {role: valid_unicode(text) for role, text in prompts.items()}
        self.limits = Limits(rounds_of(max_rounds, max_cycles), on_cut)
        self.unfinished_reward = unfinished_reward
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "name": name}  # type: ignore[misc]
        self.possible_agents = list(process.agents)
        self.agents: list[str] = []
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
            ValueError: where the transcript cannot have come about under this environment's rules and limits, or
                seed, options, problem or transcript is none.
        """
        if seed is not None or self._seed is None:
            self._seed = as_seed(seed)
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

    def step(self, action: str | None) -> None:
        """Say something: a `str`, or a `Message` that knows how it ended. None once the agent's dialogue is over.

        Raises:
            TypeError: for anything else from a live agent, or a grader that gives no Grade.
            ValueError: for anything but None from one whose dialogue is over, before `reset`, or for a score that is
                no number in [0, 1].
        """
        if not self.agents:
            raise ValueError("nobody is there to speak: the dialogue is over or has not begun; reset() begins one")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        message = as_message(agent, action)
        self._cumulative_rewards[agent] = 0.0
        self._settle(self.transcript.said(agent, message))

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Of the agent whose turn it is: observation, reward since its last turn, terminated, truncated, info."""
        self._begun()
        return super().last(observe)

    def observe(self, agent: str) -> dict[str, Any]:
        """The agent's chat, a fresh copy, its system prompt first; and the number of turns said so far."""
        self._begun()
        role = self._role[agent]
        system = self.system_prompts[role]
        first = ({"role": "system", "content": system},) if system else ()
        shown = self.process.view(self.transcript, role)
        try:
            chat = (*first, *map(dict, shown))
        except (TypeError, ValueError):
            raise ValueError(f"process {self.process.name!r} shows {role} {shown!r:.60}, no list of messages") from None
        return {"messages": chat, "turn": len(self.transcript.turns)}

    def state(self) -> tuple[dict[str, str], ...]:
        """All of the dialogue at once: the question, then every turn under its agent's name."""
        self._begun()
        question = {"role": "user", "content": self.transcript.problem.question}
        said = ({"role": "assistant", "content": f"{t.agent}: {t.message}"} for t in self.transcript.turns)
        return (question, *said)

    def render(self) -> str | None:
        """The dialogue so far as text ("ansi"), or its new turns on the terminal ("human")."""
        self._begun()
        if self.render_mode == "ansi":
            return transcript_text(self.transcript)
        if self.render_mode == "human":
            self._print_news()
        return None

    def close(self) -> None:
        """Nothing to let go of: the grading workers belong to the process and serve every environment in it."""

    def _begun(self) -> None:
        if not hasattr(self, "transcript"):
            raise ValueError("the dialogue has not begun; reset() begins one")

    def _start(self, options: Mapping[str, Any]) -> Transcript:
        if not isinstance(options, Mapping):
            raise ValueError(f"options is a mapping, e.g. {{'problem': p}}, got {options!r:.60}")
        if (given := options.get("transcript")) is not None:
            if options.get("problem") is not None:
                raise ValueError("options names a problem and a transcript; a transcript holds its own problem")
            transcript = given if isinstance(given, Transcript) else Transcript.from_json(given)
            return check_continues(transcript, self.process, self.limits)
        if (given := options.get("problem")) is None:
            given = self.problems.draw(self._seed or 0, self._draws)
            self._draws += 1
        return Transcript(as_problem(given))

    def _settle(self, transcript: Transcript) -> None:
        """Bring the books up to a transcript: whose turn it is, or what it paid and how it ended."""
        ending = ending_of(self.process, transcript, self.limits)
        if ending is None:
            self.agent_selection = self._next_agent(transcript)
            self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
            self.transcript = transcript
        else:
            self._end(transcript.ended(ending), ending)
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def _end(self, transcript: Transcript, ending: Ending) -> None:
        """Grade, pay and close. Where the grader fails, the books are as they were before the last turn."""
        self._pay(Graded(transcript, self._graded(transcript), self.process.answerer, self.tag))
        self.transcript = transcript
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
        grade = self.grade(transcript.problem, str(final))
        if not isinstance(grade, Grade):
            raise TypeError(f"the grader of {self.metadata['name']} gave {grade!r:.60}, expected a Grade")
        if not isinstance(grade.score, Real) or not 0 <= grade.score <= 1:
            raise ValueError(f"the grader of {self.metadata['name']} gave {grade!r:.60}; a score is a number in [0, 1]")
        return grade

    def _pay(self, graded: Graded) -> None:
        grade, ending = graded.grade, graded.transcript.ending
        unfinished = ending != Ending.FINISHED
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
                "dropped": ending == Ending.ABORTED or (unfinished and self.unfinished_reward == "drop"),
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
