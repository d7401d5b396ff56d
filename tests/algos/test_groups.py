"""Contexts, branches, overlong messages: what is compared with what, and what it is paid."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from algos import collect
from algos.batch import make_batch
from algos.config import SamplingConfig
from algos.groups import by_context, by_group, grafted, paid_by_branches, stems, success_rate, vary
from algos.overlong import cut, penalised
from algos.state import Progress
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Message, Problem, Transcript, Turn
from tests.algos.batches import weighed

AGENTS = ("meta_0", "reasoner_0")


def episode(
    plan: int, reply: int, reward: float, *, group: int = 0, dialogue: int = 0, finish: Finish = Finish.STOP
) -> Episode:
    """A plan and a reply of one token each, to the question 7."""
    turns = (Turn("meta_0", Message(str(plan))), Turn("reasoner_0", Message(str(reply))))
    calls = (
        Call("meta_0", 0, (7,), Completion((plan,), (-1.0,), finish)),
        Call("reasoner_0", 1, (7, plan), Completion((reply,), (-1.0,), Finish.STOP)),
    )
    transcript = Transcript(Problem(id="p", question="?", answer="1"), turns, Ending.FINISHED)
    rewards = dict.fromkeys(AGENTS, reward)
    return Episode(
        transcript.problem, transcript, calls, rewards, info={"score": reward}, group=group, dialogue=dialogue
    )


def test_contexts_part_the_solutions_of_different_plans_and_keep_all_plans_of_a_question_together() -> None:
    batch = by_context(make_batch([episode(1, 3, 1.0), episode(1, 4, 0.0), episode(2, 3, 1.0)], AGENTS))
    meta, reasoner = batch.group_S[batch.agent_S == 0].tolist(), batch.group_S[batch.agent_S == 1].tolist()
    assert len(set(meta)) == 1
    assert reasoner[0] == reasoner[1] != reasoner[2]
    assert not set(meta) & set(reasoner)


def test_equal_prompts_of_different_groups_are_never_compared() -> None:
    batch = by_context(make_batch([episode(1, 3, 1.0), episode(1, 4, 0.0, group=1)], AGENTS))
    assert len(set(batch.group_S.tolist())) == 4


def test_a_plan_is_paid_the_mean_of_its_solutions_and_a_solution_its_own() -> None:
    roots = [episode(1, 3, 1.0), episode(2, 3, 0.5, dialogue=1)]
    where = stems(roots, 1)
    assert [(stem.episode, len(stem.transcript.turns)) for stem in where] == [(0, 1), (1, 1)]
    continued = [episode(1, 4, 0.0), episode(2, 4, 0.5)]
    branches = [replace(e, calls=e.calls[1:]) for e in continued]
    episodes = collect.numbered(by_group(grafted(roots, branches, where)))
    batch = by_context(paid_by_branches(make_batch(episodes, AGENTS), episodes))
    paid = [(batch.agents[a], r) for a, r in zip(batch.agent_S.tolist(), batch.reward_S.tolist(), strict=True)]
    assert paid == [
        ("meta_0", 0.5), ("reasoner_0", 1.0), ("meta_0", 0.5), ("reasoner_0", 0.5),
        ("reasoner_0", 0.0), ("reasoner_0", 0.5),
    ]  # fmt: skip
    groups = batch.group_S[batch.agent_S == 1].tolist()
    assert groups[0] == groups[2] != groups[1] == groups[3]


def test_an_episode_that_ends_before_the_branch_has_none_and_turns_can_be_drawn() -> None:
    short = episode(1, 3, 1.0)
    assert stems([short], 2) == []
    assert [stem.turns for stem in stems([short] * 20, 0, seed=(1,))] == [1] * 20


def test_groups_are_kept_whole_and_numbered_anew_and_branches_still_know_their_stem() -> None:
    first, second = [episode(1, 3, 0.0, group=4, dialogue=8)], episode(2, 3, 1.0, group=9, dialogue=17)
    branch = replace(episode(2, 4, 0.0, group=9, dialogue=30), info={"branch_of": 17, "branch_turn": 1})
    got = collect.numbered([first, [second, branch]])
    assert [(e.group, e.dialogue) for e in got] == [(0, 0), (1, 1), (1, 2)]
    assert got[2].info["branch_of"] == 1


def test_a_group_varies_where_any_agents_rewards_do() -> None:
    same, other = episode(1, 3, 1.0), episode(1, 4, 1.0)
    assert not vary([same, other])
    assert vary([same, replace(other, rewards={"meta_0": 1.0, "reasoner_0": 0.9})])
    assert success_rate([same, episode(1, 4, 0.0)]) == 0.5


def test_a_cut_message_marks_its_own_trajectory_and_no_other() -> None:
    episodes = [episode(1, 3, 1.0, finish=Finish.LENGTH), episode(1, 3, 1.0)]
    batch = make_batch(episodes, AGENTS)
    assert cut(batch, episodes).tolist() == [True, False, False, False]
    left = batch.of_trajectories(~cut(batch, episodes))
    assert sorted(left.trajectory_B.tolist()) == [1, 2, 3]
    assert weighed(left, "token").share_BT[left.trained_BT].tolist() == pytest.approx([1 / 3] * 3)


def test_cut_messages_flag_a_trajectory_once_however_many_turns_and_rows_it_has() -> None:
    def long(*finishes: Finish) -> Episode:
        e = episode(1, 3, 1.0)
        calls = (Call("meta_0", 2 * k, (7,) * (k + 1), Completion((k,), (-1.0,), f)) for k, f in enumerate(finishes))
        return replace(e, calls=tuple(calls))

    episodes = [long(Finish.STOP, Finish.LENGTH, Finish.STOP), long(*[Finish.STOP] * 3)]
    batch = make_batch(episodes, ("meta_0",), split_rows=True)
    assert (len(batch), len(batch.reward_S)) == (6, 2)
    assert cut(batch, episodes).tolist() == [True, False]
    assert batch.of_trajectories(~cut(batch, episodes)).trajectory_B.tolist() == [1, 1, 1]


def test_a_message_pays_for_running_into_the_buffer() -> None:
    def long(tokens: int) -> Episode:
        e = episode(1, 3, 1.0)
        call = replace(e.calls[0], completion=Completion((1,) * tokens, (-1.0,) * tokens, Finish.STOP))
        return replace(e, calls=(call, e.calls[1]))

    episodes = [long(6), long(7), long(8), long(10)]
    batch = penalised(make_batch(episodes, ("meta_0",)), episodes, limit=10, buffer=4)
    assert batch.reward_S.tolist() == pytest.approx([1.0, 0.75, 0.5, 0.0])


def test_dynamic_sampling_counts_what_it_leaves_out_over_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rewards = [[(1.0, 1.0), (0.0, 1.0)], [(0.0, 0.0), (1.0, 0.0)]]  # of two rounds of two groups of two

    def played(run: Any, step: int, rounds: int, first: int) -> list[Episode]:
        assert first == 10 + 2 * (rounds - 1)
        return [episode(1, 3, r, group=g) for g, pays in enumerate(rewards[rounds - 1]) for r in pays]

    monkeypatch.setattr(collect, "_played", played)
    sampling = SamplingConfig(problems_per_step=2, num_generations=2, dynamic_sampling=True)
    run: Any = SimpleNamespace(config=SimpleNamespace(sampling=sampling), progress=Progress(problems=10))
    collected = collect.collect(run, step=1)
    assert [e.rewards["meta_0"] for e in collected.episodes] == [0.0, 1.0, 1.0, 0.0]
    assert [[e.rewards["meta_0"] for e in group] for group in collected.played] == [[1, 1], [0, 1], [0, 0], [1, 0]]
    assert (collected.problems, collected.dropped) == (4, 2)
