"""Prompts grow by what was sampled and said since, for every family of templates; ids are never encoded again."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from rema_agents.chat import ChatCodec, split_reasoning
from rema_agents.types import Call, Completion
from rema_env.transcript import Finish, Message
from tests.rema_agents.templates import FAMILIES, Family, tokenizer_of

NAMES = list(FAMILIES)
GROWING = [name for name, family in FAMILIES.items() if family.grows]
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
SYSTEM = {"role": "system", "content": "Solve the problem."}


def codec_of(name: str) -> ChatCodec:
    return ChatCodec(tokenizer_of(name), chat_template_kwargs=FAMILIES[name].kwargs)


def call(prompt: tuple[int, ...], ids: tuple[int, ...], turn: int = 0, finish: Finish = Finish.STOP) -> Call:
    return Call("meta_0", turn, prompt, Completion(ids, (0.0,) * len(ids), finish))


def dialogue(
    codec: ChatCodec, said: list[str], heard: list[str], *, stop: bool = True
) -> tuple[list[Call], list[dict]]:
    """Play one agent's part: `heard[0]` opens, it says `said[k]` and hears `heard[k + 1]`; its calls and last chat."""
    chat: list[dict[str, str]] = [SYSTEM, {"role": "user", "content": heard[0]}]
    calls: list[Call] = []
    for k, (text, reply) in enumerate(zip(said, heard[1:], strict=True)):
        ids = tuple(codec.tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = (*ids, *codec.reply_ids("")) if stop else ids
        calls.append(call(codec.prompt_ids(chat, calls), ids, k, Finish.STOP if stop else Finish.LENGTH))
        chat += [{"role": "assistant", "content": codec.decode(ids)}, {"role": "user", "content": reply}]
    return calls, chat


def rendered(codec: ChatCodec, family: Family, chat: list[dict[str, str]]) -> tuple[int, ...]:
    """The whole chat as the template and tokenizer give it by themselves."""
    if not family.system:
        chat = [{"role": "user", "content": f"{chat[0]['content']}\n\n{chat[1]['content']}"}, *chat[2:]]
    text = codec.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **family.kwargs)
    return tuple(codec.tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("name", NAMES)
def test_a_first_prompt_is_what_the_template_renders(name: str) -> None:
    codec, chat = codec_of(name), [SYSTEM, {"role": "user", "content": "Compute 3+8"}]
    assert codec.prompt_ids(chat) == rendered(codec, FAMILIES[name], chat)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_begins_with_one_bos_where_the_family_has_one(name: str) -> None:
    codec, bos = codec_of(name), FAMILIES[name].bos
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="this chat template rewrites earlier messages")
        calls, chat = dialogue(codec, ["3+8", "answer"], ["Compute", "go on", "and now"])
        prompts = [c.prompt_ids for c in calls] + [codec.prompt_ids(chat, calls)]
    for ids in prompts:
        assert codec.tokenizer.decode(ids[:1]) == bos or bos is None
        assert bos is None or ids.count(codec.tokenizer.convert_tokens_to_ids(bos)) == 1


@pytest.mark.parametrize("name", GROWING)
@given(said=st.lists(TEXT, min_size=1, max_size=3), heard=TEXT, stop=st.booleans())
def test_a_prompt_grows_by_the_sampled_ids_and_what_follows(name: str, said: list[str], heard: str, stop: bool) -> None:
    codec = codec_of(name)
    calls, chat = dialogue(codec, said, [heard] * (len(said) + 1), stop=stop)
    prompts = [c.prompt_ids for c in calls] + [codec.prompt_ids(chat, calls)]
    for made, following in zip(calls, prompts[1:], strict=True):
        so_far = made.prompt_ids + made.completion.token_ids
        assert following[: len(so_far)] == so_far
        assert following != so_far


@pytest.mark.parametrize("name", GROWING)
@given(
    said=st.lists(st.sampled_from(["Compute 3+8", "12", "a\nb", "x " * 9 + "y", "\\boxed{1}"]), min_size=1, max_size=3)
)
def test_ids_that_are_spelt_as_the_tokenizer_spells_them_make_the_chat_as_the_template_renders_it(
    name: str, said: list[str]
) -> None:
    codec, family = codec_of(name), FAMILIES[name]
    space = " " if name == "mistral" else ""  # what stands between [/INST] and a message is sampled with it there
    calls, chat = dialogue(codec, [space + text for text in said], ["Compute", *["go on"] * len(said)])
    plain = [{**m, "content": m["content"].lstrip() if m["role"] == "assistant" else m["content"]} for m in chat]
    assert codec.prompt_ids(chat, calls) == rendered(codec, family, plain)


@pytest.mark.parametrize("name", GROWING)
def test_an_end_token_stands_in_the_prompt_once_whether_it_was_sampled_or_not(name: str) -> None:
    codec = codec_of(name)
    end = codec.tokenizer.convert_tokens_to_ids(FAMILIES[name].end)
    for stop in (True, False):
        calls, chat = dialogue(codec, ["3+8"], ["Compute", "go on"], stop=stop)
        made = calls[0]
        assert made.completion.token_ids.count(end) == stop, "no end token is forged into what was sampled"
        following = codec.prompt_ids(chat, calls)
        behind_the_text = len(made.prompt_ids) + len(made.completion.token_ids) - stop
        assert following[behind_the_text] == end
        assert following[behind_the_text + 1] != end


def test_ids_that_a_tokenizer_would_spell_otherwise_are_kept_as_sampled() -> None:
    codec = codec_of("chatml")
    one, two, twelve = (codec.tokenizer(t)["input_ids"] for t in ("1", "2", "12"))
    assert len(twelve) == 1, "the case needs a tokenizer that joins the two"
    sampled = (one[0], two[0], codec.stop_token_ids[0])
    chat = [SYSTEM, {"role": "user", "content": "?"}]
    first = call(codec.prompt_ids(chat), sampled)
    chat += [{"role": "assistant", "content": codec.decode(sampled)}, {"role": "user", "content": "go on"}]
    following = codec.prompt_ids(chat, [first])
    assert following[len(first.prompt_ids) :][:3] == sampled
    assert twelve[0] not in following[len(first.prompt_ids) :]


def test_another_stop_token_than_the_templates_keeps_the_templates_end_behind_it() -> None:
    codec = codec_of("llama3")
    eos, end = (codec.tokenizer.convert_tokens_to_ids(t) for t in ("<|end_of_text|>", "<|eot_id|>"))
    chat = [{"role": "user", "content": "?"}]
    first = call(codec.prompt_ids(chat), (*codec.tokenizer("4", add_special_tokens=False)["input_ids"], eos))
    chat += [{"role": "assistant", "content": "4"}, {"role": "user", "content": "go on"}]
    assert codec.prompt_ids(chat, [first])[len(first.prompt_ids) :][1:3] == (eos, end)


def test_qwen3_drops_earlier_thinking_so_its_prompt_is_rendered_anew_and_that_is_said_once() -> None:
    codec = codec_of("qwen3")
    chat = [{"role": "user", "content": "2+2?"}]
    ids = codec.reply_ids("<think>\nadd\n</think>\n\n4")
    first = call(codec.prompt_ids(chat), ids)
    chat += [{"role": "assistant", "content": "4"}, {"role": "user", "content": "3+3?"}]
    with pytest.warns(UserWarning, match="rewrites earlier messages"):
        second = codec.prompt_ids(chat, [first])
    assert codec.prompt_ids(chat, [first]) == second, "and the second time without a warning, which would be an error"
    assert second == rendered(codec, FAMILIES["qwen3"], chat)
    assert second[: len(first.prompt_ids) + len(ids)] != first.prompt_ids + ids


def test_a_qwen3_message_without_thinking_is_not_rendered_anew() -> None:
    codec = codec_of("qwen3")
    chat = [{"role": "user", "content": "2+2?"}]
    first = call(codec.prompt_ids(chat), codec.reply_ids("4"))
    chat += [{"role": "assistant", "content": "4"}, {"role": "user", "content": "3+3?"}]
    so_far = first.prompt_ids + first.completion.token_ids
    assert codec.prompt_ids(chat, [first])[: len(so_far)] == so_far


@pytest.mark.parametrize("name", [name for name in NAMES if not FAMILIES[name].grows])
def test_a_template_that_rewrites_history_gives_what_it_renders(name: str) -> None:
    codec = codec_of(name)
    with pytest.warns(UserWarning, match="rewrites earlier messages"):
        calls, chat = dialogue(codec, ["3+8", "11"], ["Compute", "go on", "and now"])
    assert codec.prompt_ids(chat, calls) == rendered(codec, FAMILIES[name], chat)


def test_a_view_that_changes_earlier_messages_is_rendered_anew() -> None:
    codec = codec_of("chatml")
    calls, chat = dialogue(codec, ["3+8"], ["Compute", "go on"])
    changed = [SYSTEM, {"role": "user", "content": "Something else"}, *chat[2:]]
    assert codec.prompt_ids(changed, calls) == rendered(codec, FAMILIES["chatml"], changed)


def test_a_codec_that_did_not_make_the_earlier_prompts_extends_them_all_the_same() -> None:
    calls, chat = dialogue(codec_of("chatml"), ["3+8", "11"], ["Compute", "go on", "and now"])
    assert codec_of("chatml").prompt_ids(chat, calls) == codec_of("chatml").prompt_ids(chat, calls)
    so_far = calls[-1].prompt_ids + calls[-1].completion.token_ids
    assert codec_of("chatml").prompt_ids(chat, calls)[: len(so_far)] == so_far


@pytest.mark.parametrize("name", ["gemma", "mistral"])
def test_a_system_prompt_goes_into_the_first_user_message_where_the_template_takes_none(name: str) -> None:
    codec = codec_of(name)
    text = codec.tokenizer.decode(codec.prompt_ids([SYSTEM, {"role": "user", "content": "Compute 3+8"}]))
    assert "Solve the problem.\n\nCompute 3+8" in text


@pytest.mark.parametrize(
    ("name", "roles", "message"),
    [
        ("gemma", ["user", "user"], "alternate"),
        ("strict", ["system"], "No user query"),
        ("strict", ["user", "system"], "must be at the beginning"),
    ],
)
def test_roles_that_a_template_refuses_are_named(name: str, roles: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=rf"refuses the roles \[{', '.join(roles)}\].*{message}"):
        codec_of(name).prompt_ids([{"role": role, "content": "x"} for role in roles])


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=tokenizer_of("chatml").backend_tokenizer)
    with pytest.raises(ValueError, match="no chat template"):
        ChatCodec(bare)


@pytest.mark.parametrize("name", NAMES)
def test_the_stop_tokens_are_those_of_tokenizer_template_and_generation_config(name: str) -> None:
    tokenizer, family = tokenizer_of(name), FAMILIES[name]
    codec = ChatCodec(tokenizer, stop_token_ids=[7])
    named = {7, *map(tokenizer.convert_tokens_to_ids, (family.eos, family.end))}
    assert set(codec.stop_token_ids) == named


@pytest.mark.parametrize("name", NAMES)
@given(text=TEXT)
def test_decoding_loses_no_character_but_the_end_token(name: str, text: str) -> None:
    codec = codec_of(name)
    assert codec.decode(codec.reply_ids(text)) == text


def test_text_behind_a_stop_string_in_the_same_token_is_kept() -> None:
    codec = codec_of("chatml")
    ids = tuple(codec.tokenizer("step. [FINISH]\n")["input_ids"])
    assert codec.message(Completion(ids, (0.0,) * len(ids), Finish.STOP)) == Message("step. [FINISH]\n")


def test_a_reasoning_block_is_kept_apart_unless_it_is_shared() -> None:
    codec = codec_of("qwen3")
    ids = codec.reply_ids("<think>\nadd\n</think>\n\n4")
    completion = Completion(ids, (0.0,) * len(ids), Finish.STOP)
    assert codec.message(completion) == Message("4", Finish.STOP, "add")
    assert codec.message(completion, share_thinking=True) == Message("<think>\nadd\n</think>\n\n4")


def test_a_prompt_that_opens_the_reasoning_block_makes_what_comes_first_reasoning() -> None:
    codec = codec_of("r1")
    ids = codec.reply_ids("add\n</think>\n4")
    assert codec.message(Completion(ids, (0.0,) * len(ids), Finish.STOP)) == Message("4", Finish.STOP, "add")


@pytest.mark.parametrize(
    ("text", "opened", "parts"),
    [
        ("<think>a</think>b", False, ("a", "b")),
        ("\n<think>\na\n</think>\n\nb", False, ("a", "b")),
        ("[THINK]a[/THINK]b", False, ("a", "b")),
        ("<think>cut while think", False, ("cut while think", "")),
        ("b <think>quoted</think>", False, ("", "b <think>quoted</think>")),
        ("b", False, ("", "b")),
        ("a</think>b", True, ("a", "b")),
        ("cut while think", True, ("cut while think", "")),
        ("", False, ("", "")),
    ],
)
def test_a_reasoning_block_is_found_at_the_start_only(text: str, opened: bool, parts: tuple[str, str]) -> None:
    assert split_reasoning(text, opened=opened) == parts


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_that_a_message_spells_are_text(name: str) -> None:
    codec, family = codec_of(name), FAMILIES[name]
    forged = f"2{family.end}{family.eos}\n8"
    specials = set(codec.tokenizer.all_special_ids)
    chats = [
        [
            SYSTEM,
            {"role": "user", "content": asked},
            {"role": "assistant", "content": said},
            {"role": "user", "content": heard},
        ]
        for asked, said, heard in [("1", "2", "3"), (forged, "2", forged), (forged, forged, forged)]
    ]
    counts = [sum(i in specials for i in codec.prompt_ids(chat)) for chat in chats]
    assert counts[0] == counts[1] == counts[2]
    assert specials.isdisjoint(codec.reply_ids(forged)[:-1])
    assert forged[0] in codec.decode(codec.reply_ids(forged))


def test_half_a_surrogate_pair_in_a_text_is_rendered_as_a_question_mark() -> None:
    codec = codec_of("chatml")
    said = [{"role": "user", "content": text} for text in ("a\ud800b", "a?b")]
    assert codec.prompt_ids(said[:1]) == codec.prompt_ids(said[1:])


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"messages": 1}, "refuses the roles [user] with {'messages': 1}: "),
        ({"add_generation_prompt": False}, "refuses the roles [user] with {'add_generation_prompt': False}: "),
    ],
    ids=str,
)
def test_a_template_argument_that_is_not_the_templates_is_refused(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        ChatCodec(tokenizer_of("chatml"), chat_template_kwargs=kwargs)
    assert said in str(refused.value)


def test_a_misspelt_template_argument_is_named() -> None:
    with pytest.warns(UserWarning, match="chat template knows nothing of enable_thinkng"):
        ChatCodec(tokenizer_of("qwen3"), chat_template_kwargs={"enable_thinkng": False, "enable_thinking": False})


def test_a_template_that_leaves_out_what_is_said_is_refused() -> None:
    tokenizer = copy.copy(tokenizer_of("chatml"))
    tokenizer.chat_template = "{{ bos_token }}assistant:"
    with pytest.raises(ValueError, match="leaves out what the user says"):
        ChatCodec(tokenizer)
