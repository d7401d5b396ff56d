"""Rows, batches and how they are cut."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algos.batch import Batch, join_calls, make_batch, micro_batches, minibatches
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Problem, Transcript

AGENTS = ("meta_0", "reasoner_0")


def call(agent: str, turn: int, prompt: list[int], sampled: list[int]) -> Call:
    logps = tuple(-float(i) for i in sampled)
    return Call(agent, turn, tuple(prompt), Completion(tuple(sampled), logps, Finish.STOP))


def episode(calls: list[Call], *, group: int = 0, reward: float = 1.0, ending: Ending = Ending.FINISHED) -> Episode:
    problem = Problem("p", "q", "a")
    return Episode(problem, Transcript(problem, (), ending), tuple(calls), dict.fromkeys(AGENTS, reward), group=group)


TWO_TURNS = [call("meta_0", 0, [1, 2], [3, 4]), call("meta_0", 2, [1, 2, 3, 4, 5, 6], [7])]


def test_a_call_extends_the_row_where_its_prompt_starts_with_the_row_so_far() -> None:
    (row,) = join_calls(TWO_TURNS)
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert row.turn.tolist() == [-1, -1, 0, 0, -1, -1, 1]
    assert row.sampled_logp.tolist() == [0, 0, -3, -4, 0, 0, -7]


def test_a_prompt_that_was_rewritten_begins_a_new_row() -> None:
    first, second = join_calls([TWO_TURNS[0], call("meta_0", 2, [1, 2, 9, 5, 6], [7])])
    assert first.ids.tolist() == [1, 2, 3, 4]
    assert second.ids.tolist() == [1, 2, 9, 5, 6, 7]
    assert second.turn.tolist() == [-1, -1, -1, -1, -1, 1]


def test_a_mask_longer_than_its_completion_is_a_hard_error_that_names_the_sample() -> None:
    bad = Call("meta_0", 0, (1,), Completion((2, 3), (-1.0,), Finish.STOP))
    with pytest.raises(ValueError, match="meta_0, turn 0: 2 sampled ids but 1 log-prob"):
        join_calls([bad])


sampled_ids = st.lists(st.integers(0, 5), max_size=4)


@given(st.lists(st.tuples(sampled_ids, sampled_ids, st.booleans()), min_size=1, max_size=5), st.booleans())
def test_every_sampled_token_and_no_other_is_trained(
    turns: list[tuple[list[int], list[int], bool]], split: bool
) -> None:
    ids, calls = [1], []
    for k, (sampled, said, rewritten) in enumerate(turns):
        calls.append(call("meta_0", k, ids, sampled))
        ids = [*([9] if rewritten else []), *ids, *sampled, 8, *said]
    rows = join_calls(calls, split=split)
    trained = [(k, i) for row in rows for k, i in zip(row.turn.tolist(), row.ids.tolist(), strict=True) if k >= 0]
    assert trained == [(k, i) for k, (sampled, _, _) in enumerate(turns) for i in sampled]


def test_a_stop_token_that_equals_padding_is_trained_when_it_was_sampled() -> None:
    rows = [call("meta_0", 0, [5], [6, 0, 0]), call("reasoner_0", 1, [5, 5], [6, 6, 6, 6])]
    batch = make_batch([episode(rows)], AGENTS)
    assert batch.trained_BT.tolist() == [[False, True, True, True, False, False], [False, False, *[True] * 4]]
    assert batch.length_B.tolist() == [4, 6]


def test_groups_are_one_agents_trajectories_on_one_problem() -> None:
    both = [call("meta_0", 0, [1], [2]), call("reasoner_0", 1, [1], [2])]
    batch = make_batch([episode(both, group=g) for g in (0, 0, 1)], AGENTS)
    assert batch.group_S.tolist() == [0, 1, 0, 1, 2, 3]
    assert batch.agent_S.tolist() == [0, 1] * 3
    assert batch.episode_S.tolist() == [0, 0, 1, 1, 2, 2]


def test_an_aborted_or_dropped_episode_is_never_trained_on() -> None:
    kept, aborted = episode([TWO_TURNS[0]], reward=0.5), episode([TWO_TURNS[0]], ending=Ending.ABORTED)
    dropped = Episode(**{**vars(kept), "info": {"dropped": True}})
    batch = make_batch([aborted, dropped, kept], ["meta_0"])
    assert batch.reward_S.tolist() == [0.5]
    with pytest.raises(ValueError, match="nothing to train on: none of the 1 episodes"):
        make_batch([aborted], AGENTS)


def test_an_agent_that_never_spoke_has_no_trajectory() -> None:
    assert make_batch([episode([TWO_TURNS[0]])], AGENTS).agent_S.tolist() == [0]


def many(trajectories: int = 20) -> Batch:
    """Trajectories of different length, every third of them in two rows."""
    episodes = []
    for n in range(trajectories):
        calls = [call("meta_0", 0, [1] * (1 + n % 5), [2] * (1 + n % 7))]
        if n % 3 == 0:
            calls.append(call("meta_0", 2, [9], [3] * (1 + n % 4)))
        episodes.append(episode(calls, group=n // 4, reward=float(n)))
    return make_batch(episodes, ["meta_0"])


@given(st.integers(1, 8), st.integers(0, 3))
def test_minibatches_part_the_trajectories_and_keep_each_whole(count: int, seed: int) -> None:
    batch = many()
    parts = list(minibatches(batch, count, seed=(seed,)))
    seen = [set(part.trajectory_B.tolist()) for part in parts]
    assert sum(len(s) for s in seen) == len(set().union(*seen)) == 20
    assert sum(len(part) for part in parts) == len(batch)
    assert max(map(len, seen)) - min(map(len, seen)) <= 1


def test_minibatches_are_shuffled_by_their_seed_alone() -> None:
    first, again, other = (
        [p.trajectory_B.tolist() for p in minibatches(many(), 4, seed=s)] for s in ((1,), (1,), (2,))
    )
    assert first == again != other


@given(st.integers(1, 60))
def test_micro_batches_hold_every_row_once_within_the_budget(tokens: int) -> None:
    batch = many()
    seen: list[int] = []
    for index in micro_batches(batch, tokens):
        micro = batch.rows(index)
        seen += index.tolist()
        one_trajectory = len(set(micro.trajectory_B.tolist())) == 1
        assert len(micro) * int(micro.length_B.max()) <= tokens or one_trajectory
        outside = set(range(len(batch))) - set(index.tolist())
        assert not set(micro.trajectory_B.tolist()) & {int(batch.trajectory_B[b]) for b in outside}
    assert sorted(seen) == list(range(len(batch)))


def test_a_batch_is_never_written_to_and_names_what_it_lacks() -> None:
    batch = many()
    more = batch.with_tensors(adv_BT=torch.ones(batch.ids_BT.shape), value_S=torch.arange(20))
    with pytest.raises(AttributeError, match="no adv_BT here; later stages have added: nothing"):
        batch.adv_BT  # noqa: B018
    part = more.rows(torch.tensor([0]))
    assert part.adv_BT.shape == part.ids_BT.shape == (1, int(batch.length_B[0]))
    assert len(part.value_S) == 20
