"""What play and training need of a text environment, stated as checks that anyone can run on theirs.

    from rema_env.testing import check_text_env

    def test_my_environment_can_be_trained_on():
        check_text_env(my_package.env())

PettingZoo's `api_test` says that an environment is one; these checks say that models can talk in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

from pettingzoo import AECEnv

from rema_env.problems import Problems
from rema_env.spaces import CHAT_ROLES, valid_unicode
from rema_env.transcript import Ending, Finish, Message, Outcome, Problem, Transcript

HOSTILE = ("", " ", "[FINISH]", r"\boxed{1}", "{}", "<|im_end|>\x00", "日本語 \U0001f600", "\ud800", "x" * 10_000)
MAX_TURNS = 10_000


def check_text_env(env: AECEnv) -> None:
    """Check that an environment can be played and trained on by this project.

    It is played several times; nothing is left behind but its generators' states.

    Args:
        env: an AEC environment. Its `unwrapped` has `problems` to draw from and, where it keeps one, the `transcript`.

    Raises:
        AssertionError: saying which requirement is not met, and how.
    """
    check_agents(env)
    check_spaces(env)
    problem = check_problems(env)
    check_reset(env, problem)
    check_dialogue(env, problem)
    check_cut_messages(env, problem)
    check_refusals(env, problem)


def check_agents(env: AECEnv) -> None:
    """Agents are named role_number, e.g. `solver_0`: the role is what prompts, policies and metrics go by."""
    assert isinstance(env, AECEnv), f"expected a pettingzoo AECEnv, got {type(env).__name__}"
    assert env.possible_agents, "possible_agents is empty"
    for agent in env.possible_agents:
        assert re.fullmatch("[a-z]+_[0-9]+", agent), f"an agent is named role_number in a-z and 0-9, got {agent!r}"
    assert env.metadata.get("name"), "metadata has no name"


def check_spaces(env: AECEnv) -> None:
    """Any text is an action, and a `Message` is one too."""
    for agent in env.possible_agents:
        space = env.action_space(agent)
        assert isinstance(space.sample(), str), f"the action space of {agent} does not sample text"
        for text in HOSTILE:
            assert space.contains(text), f"the action space of {agent} refuses {text!r:.40}"
            assert space.contains(Message(text, Finish.LENGTH)), f"the action space of {agent} refuses a Message"


def check_problems(env: AECEnv) -> Problem:
    """`env.unwrapped.problems` is where training draws from: each draw is decided by its seed and index.

    Returns:
        A problem of this environment.
    """
    problems = getattr(env.unwrapped, "problems", None)
    assert isinstance(problems, Problems), "env.unwrapped.problems needs name, size and draw(seed, index)"
    problem = problems.draw(1, 0)
    assert isinstance(problem, Problem), f"problems.draw gives a {type(problem).__name__}, expected a Problem"
    later = 1 if problems.size is None else problems.size
    try:
        problems.draw(1, later)
    except (IndexError, KeyError) as error:
        raise AssertionError(
            f"problems.draw(1, {later}) fails ({error!r}): a source is drawn from for as long as training lasts, epoch"
            " after epoch"
        ) from error
    assert problems.draw(1, 0) == problem, "problems.draw(1, 0) is another problem the second time"
    return problem


def check_reset(env: AECEnv, problem: Problem) -> None:
    """A seed decides the draw; a pinned problem is the one played; unknown options are ignored."""
    env.reset(seed=1, options={"no such option": 1})
    first = env.last()[0]
    check_observation(env, env.agent_selection, first, 0)
    env.reset(seed=1)
    assert env.last()[0] == first, "the same seed draws another problem or shows another chat"
    env.reset(seed=2, options={"problem": problem})
    pinned = env.last()[0]
    env.reset(seed=3, options={"problem": problem})
    assert env.last()[0] == pinned, "reset(options={'problem': p}) does not play p: another seed shows another chat"
    if (transcript := transcript_of(env)) is not None:
        assert transcript.problem == problem, "reset(options={'problem': p}) does not play p, says the transcript"


def transcript_of(env: AECEnv) -> Transcript | None:
    """`env.unwrapped.transcript`, the dialogue so far; None where the environment keeps none."""
    transcript = getattr(env.unwrapped, "transcript", None)
    assert transcript is None or isinstance(transcript, Transcript), (
        f"env.unwrapped.transcript is a {type(transcript).__name__}, expected a Transcript of rema_env"
    )
    return transcript


def check_dialogue(env: AECEnv, problem: Problem) -> None:
    """Hostile text is played to an end; every turn is recorded, every observation is a chat, the pay is finite."""
    env.reset(seed=3, options={"problem": problem})
    said: list[tuple[str, str]] = []
    paid = dict.fromkeys(env.possible_agents, 0.0)
    infos: dict[str, Mapping[str, Any]] = {}
    for agent in env.agent_iter(MAX_TURNS):
        observation, reward, terminated, truncated, info = env.last()
        check_number(f"{agent}'s reward", reward)
        paid[agent] += reward
        if terminated or truncated:
            infos[agent] = info
            env.step(None)
            continue
        check_observation(env, agent, observation, len(said))
        said.append((agent, HOSTILE[len(said) % len(HOSTILE)]))
        env.step(said[-1][1])
    assert not env.agents, f"the dialogue did not end within {MAX_TURNS} turns"
    transcript = transcript_of(env)
    if transcript is not None:
        check_record(transcript, said)
    assert infos.keys() == set(paid), f"only {sorted(infos)} were told that it is over, of {sorted(paid)}"
    for agent, info in infos.items():
        check_last_info(agent, info, transcript)


def check_observation(env: AECEnv, agent: str, observation: Any, turn: int) -> None:
    """`{"messages": ({"role", "content"}, ...), "turn": turns said so far}`, ending with what is to be answered."""
    assert env.observation_space(agent).contains(observation), f"{agent}'s observation is outside of its space"
    told = observation.keys() if isinstance(observation, Mapping) else set()
    assert {"messages", "turn"} <= told, f"{agent}'s observation needs messages and turn, got {observation!r:.80}"
    assert observation["turn"] == turn, f"{agent} is told turn {observation['turn']}, but {turn} turns have been said"
    chat = observation["messages"]
    assert chat, f"{agent} is asked to answer an empty chat"
    for message in chat:
        check_message(agent, message)
    roles = [message["role"] for message in chat]
    assert "system" not in roles[1:], f"{agent}'s chat has a system message that is not its first"
    assert roles[-1] == "user", f"{agent} is to answer, but its chat ends with {roles[-1]!r}"
    said = roles[roles[0] == "system" :]
    assert said == ["user", "assistant"] * (len(said) // 2) + ["user"], (
        f"in {agent}'s chat user and assistant do not take turns, as chat templates demand: {', '.join(said)}"
    )


def check_message(agent: str, message: Any) -> None:
    """`{"role": ..., "content": ...}`, a known role and text that can be encoded."""
    assert isinstance(message, Mapping), f"{agent}'s chat holds {message!r:.40}, which is no message"
    assert message.keys() == {"role", "content"}, f"a message has role and content, got {sorted(message)}"
    assert message["role"] in CHAT_ROLES, f"a message's role is one of {CHAT_ROLES}, got {message['role']!r}"
    assert isinstance(message["content"], str), f"a message's content is text, got {message['content']!r:.40}"
    assert valid_unicode(message["content"]) == message["content"], (
        f"{agent} is shown a lone surrogate, which nothing can encode: {message['content']!r:.40}"
    )


def check_record(transcript: Transcript, said: list[tuple[str, str]]) -> None:
    """Every turn is in the transcript, by the agent that was selected, and the ending with it."""
    assert [turn.agent for turn in transcript.turns] == [agent for agent, _ in said], "the transcript has other turns"
    for turn, (_, text) in zip(transcript.turns, said, strict=True):
        text = text.encode("utf-8", "replace").decode()
        kept = str(turn.message).replace("\ufffd", "?")
        assert kept == text.replace("\ufffd", "?"), f"{turn.agent} said {text!r:.40}; the transcript has {kept!r:.40}"
    assert isinstance(transcript.ending, Ending), f"the dialogue is over, but transcript.ending is {transcript.ending}"
    assert Transcript.from_json(transcript.to_json()) == transcript, "the transcript does not survive JSON"


def check_last_info(agent: str, info: Mapping[str, Any], transcript: Transcript | None) -> None:
    """What the last info tells of ending, outcome, score and terms is told in the words that metrics know."""
    if transcript is not None:
        assert info.get("ending") == transcript.ending, (
            f"{agent}'s last info has ending {info.get('ending')!r}, the transcript {str(transcript.ending)!r}"
        )
    outcome, score = info.get("outcome"), info.get("score")
    assert outcome is None or outcome in set(Outcome), f"no outcome is called {outcome!r}"
    if score is not None:
        check_number(f"{agent}'s score", score)
    terms = info.get("terms", {})
    assert isinstance(terms, Mapping), f"{agent}'s terms are a mapping from name to value, got {terms!r:.40}"
    for name, value in terms.items():
        check_number(f"{agent}'s reward term {name!r}", value)


def check_number(what: str, value: Any) -> None:
    """A finite number."""
    finite = isinstance(value, Real) and math.isfinite(value)
    assert finite, f"{what} is {value!r:.40}, expected a finite number"


def check_cut_messages(env: AECEnv, problem: Problem) -> None:
    """A seat that could not speak ends the dialogue at once, truncated, under its own name."""
    for finish, ending in ((Finish.CONTEXT_FULL, Ending.CONTEXT_FULL), (Finish.ABORTED, Ending.ABORTED)):
        env.reset(seed=4, options={"problem": problem})
        env.step(Message("", finish))
        _, _, terminated, truncated, info = env.last(observe=False)
        assert (bool(terminated), bool(truncated)) == (False, True), f"a {finish} message does not truncate"
        assert info.get("ending") == ending, f"a {finish} message ends as {info.get('ending')!r}, expected {ending}"
        transcript = transcript_of(env)
        kept = finish if transcript is None else transcript.turns[-1].message.finish
        assert kept is finish, f"the transcript says that a {finish} message ended as {kept}"


def check_refusals(env: AECEnv, problem: Problem) -> None:
    """What is no text is refused by a live agent, with its name."""
    for action in (None, 5, b"bytes"):
        env.reset(seed=5, options={"problem": problem})
        agent = env.agent_selection
        said = "nothing"
        try:
            env.step(action)
        except TypeError as error:
            said = str(error)
        assert agent in said, (
            f"{agent} says {action!r}, which is no text: expected a TypeError that names it, got {said}"
        )
