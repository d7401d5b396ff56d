"""Rows, batches and how they are cut."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algos.batch import Batch, join_calls, make_batch, micro_batches, minibatches
from rema_agents.chat import ChatCodec
from rema_agents.types import Call, Completion, Episode
from rema_env.transcript import Ending, Finish, Problem, Transcript
from tests.rema_agents.templates import tokenizer_of

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


def test_turns_are_numbered_without_the_calls_that_said_nothing() -> None:
    (row,) = join_calls([call("meta_0", 0, [1], []), call("meta_0", 2, [1, 2], [3]), call("meta_0", 4, [1, 2, 3], [])])
    assert row.ids.tolist() == [1, 2, 3]
    assert row.turn.tolist() == [-1, -1, 0]


def test_a_prompt_that_was_rewritten_begins_a_new_row() -> None:
    first, second = join_calls([TWO_TURNS[0], call("meta_0", 2, [1, 2, 9, 5, 6], [7])])
    assert first.ids.tolist() == [1, 2, 3, 4]
    assert second.ids.tolist() == [1, 2, 9, 5, 6, 7]
    assert second.turn.tolist() == [-1, -1, -1, -1, -1, 1]


@pytest.mark.parametrize(("ids", "others"), [(2, 1), (9, 11), (128, 140)])
def test_ids_and_log_probabilities_of_different_length_are_a_hard_error_that_names_the_sample(
    ids: int, others: int
) -> None:
    bad = Call("meta_0", 0, (1,), Completion((2,) * ids, (-1.0,) * others, Finish.STOP))
    with pytest.raises(ValueError, match=f"meta_0, turn 0: {ids} sampled ids but {others} log-prob"):
        join_calls([bad])


def test_a_template_that_drops_thinking_trains_each_turn_on_the_prompt_that_it_saw() -> None:
    codec = ChatCodec(tokenizer_of("qwen3"))
    chat = [{"role": "user", "content": "2+2?"}]
    first = call("meta_0", 0, [*codec.prompt_ids(chat)], [*codec.reply_ids("<think>\nadd\n</think>\n\n4")])
    chat += [{"role": "assistant", "content": "4"}, {"role": "user", "content": "3+3?"}]
    with pytest.warns(UserWarning, match="rewrites earlier messages"):
        second = call("meta_0", 2, [*codec.prompt_ids(chat, [first])], [*codec.reply_ids("6")])
    rows = join_calls([first, second])
    assert len(rows) == 2
    for turn, (row, made) in enumerate(zip(rows, (first, second), strict=True)):
        prompt, sampled = made.prompt_ids, made.completion.token_ids
        assert row.ids.tolist() == [*prompt, *sampled]
        assert row.turn.tolist() == [-1] * len(prompt) + [turn] * len(sampled)


def test_ids_that_would_be_encoded_otherwise_are_trained_as_they_were_sampled() -> None:
    words = tokenizer_of("chatml")
    pieces, joined = [words("1")["input_ids"][0], words("2")["input_ids"][0]], words("12")["input_ids"]
    assert len(joined) == 1, "the case needs a tokenizer that joins the two"
    made = call("meta_0", 0, [5], pieces)
    (row,) = join_calls([made])
    assert made.completion.token_ids == tuple(pieces)
    assert row.ids[row.turn >= 0].tolist() == pieces
    assert len(row.ids) == len(row.turn) == len(row.sampled_logp) == 3


@pytest.mark.parametrize("stopped", [True, False])
def test_an_end_is_trained_where_it_was_sampled_and_never_forged_where_a_message_was_cut(stopped: bool) -> None:
    codec = ChatCodec(tokenizer_of("chatml"))
    (end,) = codec.reply_ids("")
    said = codec.reply_ids("4")[: None if stopped else -1]
    chat = [{"role": "user", "content": "2+2?"}]
    first = call("meta_0", 0, [*codec.prompt_ids(chat)], [*said])
    chat += [{"role": "assistant", "content": "4"}, {"role": "user", "content": "3+3?"}]
    (row,) = join_calls([first, call("meta_0", 2, [*codec.prompt_ids(chat, [first])], [*codec.reply_ids("6")])])
    after = len(first.prompt_ids) + len(codec.reply_ids("4")) - 1
    assert row.ids[after] == end, "the chat goes on behind an end in either case"
    assert row.turn[after] == (0 if stopped else -1)
    assert row.turn[row.turn >= 0].tolist() == [0] * len(said) + [1] * 2


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
    spoken = [sampled for sampled, _, _ in turns if sampled]
    assert trained == [(k, i) for k, sampled in enumerate(spoken) for i in sampled]


def test_a_stop_token_that_equals_padding_is_trained_where_it_was_sampled_and_nowhere_else() -> None:
    rows = [call("meta_0", 0, [9], [5, 6, 0]), call("reasoner_0", 1, [9], [5, 6, 7, 8, 9])]
    batch = make_batch([episode(rows)], AGENTS)
    assert batch.ids_BT[0].tolist() == [9, 5, 6, 0, 0, 0]
    assert batch.trained_BT[0, 1:].tolist() == [True, True, True, False, False]
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


def test_rows_that_are_cut_shorter_are_cut_in_every_tensor() -> None:
    rows = [call("meta_0", 0, [1] * 8, [2] * length) for length in (132, 120)]
    batch = make_batch([episode([row], group=g) for g, row in enumerate(rows)], ["meta_0"])
    batch = batch.with_tensors(old_logp_BT=batch.sampled_logp_BT, value_BK=torch.zeros(2, 1))
    assert batch.ids_BT.shape == (2, 140)
    part = batch.rows(torch.tensor([1]))
    tensors = {**vars(part), **part.more}
    assert {name: tensors[name].shape for name in tensors if name.endswith("_BT")} == dict.fromkeys(
        ("ids_BT", "turn_BT", "sampled_logp_BT", "old_logp_BT"), (1, 128)
    )
    assert int(part.trained_BT.sum()) == 120
