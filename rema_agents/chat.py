"""Chats to prompt ids and sampled ids to messages: the only place that touches chat templates.

A prompt grows by what was sampled and said since:

    prompt_k+1 = prompt_k + sampled_k + ids of the text that the template puts after it

so sampled ids are never encoded again. The text after it is read off the template itself: the chat is rendered with a
sentinel in place of the sampled message and cut behind the sentinel. Where a template rewrites what it rendered before
(Qwen3 drops earlier thinking), the prompt is rendered anew and a warning says so once; a learner then sees a new row.
"""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rema_agents.types import Call, Completion
from rema_env.transcript import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REASONING_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
)
"""How models mark a private reasoning block at the start of a message: opening and closing tag."""

_SENTINEL = "sentinel-4f1c"
_MEMORY = 4096

Chat = tuple[tuple[str, str], ...]


class ChatCodec:
    """One model's chat format.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        chat_template_kwargs: further variables of the template, e.g. `{"enable_thinking": False}`.
        stop_token_ids: ids that end a message besides those that tokenizer and template name, such as
            `generation_config.eos_token_id`.

    Attributes:
        stop_token_ids: every id that ends a message.

    Raises:
        ValueError: the tokenizer has no chat template, or its template cannot render a user message.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        stop_token_ids: Iterable[int] = (),
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
            raise ValueError(
                f"{name} has no chat template: use an instruct model, or put a chat_template.jinja into its folder"
            )
        self.tokenizer = tokenizer
        self._kwargs = dict(chat_template_kwargs or {})
        self._warn_of_unknown_kwargs()
        self._render = lru_cache(_MEMORY)(self._render_chat)
        self._encode = lru_cache(_MEMORY)(self._encode_text)
        self._rendered: OrderedDict[tuple[int, ...], Chat] = OrderedDict()
        self._rewriting_said = False
        self._has_system = self._probe_system()
        self._end_of_message = self._find_end()
        self.stop_token_ids = tuple(dict.fromkeys((*stop_token_ids, *self._end_of_sequence(), *self._end_of_message)))
        self._hidden = _special_ids(tokenizer) | set(self.stop_token_ids)
        self._special = _any_of(_special_texts(tokenizer))
        self._opens_reasoning = _opening_tag_at_end(self._render((("user", "x"),)))

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, chat_template_kwargs: Mapping[str, Any] | None = None) -> ChatCodec:
        """The codec of a model folder, with the end tokens of its generation config. Raises ValueError without one."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except OSError as error:
            raise ValueError(f"{folder} holds no model: {str(error).strip().splitlines()[0]}") from error
        stops = _configured_stops(folder)
        return cls(tokenizer, chat_template_kwargs=chat_template_kwargs, stop_token_ids=stops)

    def prompt_ids(self, messages: Iterable[Mapping[str, str]], said: Sequence[Call] = ()) -> tuple[int, ...]:
        """The ids that a sampler continues.

        Args:
            messages: the agent's chat, `{"role", "content"}` each, ending before the message to be sampled.
            said: this agent's calls so far in this dialogue, oldest first.

        Returns:
            The last call's prompt and sampled ids and what follows them, where template and chat have only grown;
            else the whole chat rendered anew. Text of a question or message that spells a special token is parted by a
            space, so that nobody ends another's turn or speaks for another; a system prompt is taken as it is.
        """
        chat = self._fold(tuple((m["role"], self._plain(m["role"], m["content"])) for m in messages))
        return self._prompt_ids(chat, tuple(said))

    def reply_ids(self, text: str) -> tuple[int, ...]:
        """What a model would have sampled to say `text`: its ids, then the one that ends a message in the template."""
        return self._encode(self._plain("assistant", text)) + self._end_of_message

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, special tokens left out, every other character kept."""
        kept = [i for i in ids if i not in self._hidden]
        return str(self.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def message(self, completion: Completion, *, share_thinking: bool = False) -> Message:
        """What the seat says: the sampled text and how it ended, a reasoning block kept apart.

        Args:
            share_thinking: leave the reasoning block in the text, for partner and grader to see.
        """
        text = self.decode(completion.token_ids)
        reasoning, answer = split_reasoning(text, opened=self._opens_reasoning)
        if share_thinking or not reasoning:
            return Message(text if share_thinking else answer, completion.finish)
        return Message(answer, completion.finish, reasoning)

    def _plain(self, role: str, text: str) -> str:
        """The text with the special tokens that it spells parted: `< |im_end|>`."""
        return text if role == "system" else self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def _prompt_ids(self, chat: Chat, said: tuple[Call, ...]) -> tuple[int, ...]:
        ids = self._extended(chat, said) if said else None
        if ids is None:
            ids = self._encode(self._render(chat))
        self._rendered[ids] = chat
        if len(self._rendered) > _MEMORY:
            self._rendered.popitem(last=False)
        return ids

    def _extended(self, chat: Chat, said: tuple[Call, ...]) -> tuple[int, ...] | None:
        """The last call's ids and what follows them, or None where chat or template rewrote what stood before."""
        own = [index for index, (role, _) in enumerate(chat) if role == "assistant"]
        if not own:
            return None
        last, before = said[-1], chat[: own[-1]]
        if self._rendered.get(last.prompt_ids) != before and self._prompt_ids(before, said[:-1]) != last.prompt_ids:
            return None
        text_after = self._text_after(before, chat[own[-1] + 1 :], last.completion.token_ids)
        if text_after is None:
            self._warn_of_rewriting()
            return None
        sampled = last.completion.token_ids
        return last.prompt_ids + sampled + self._after_stop(self._encode(text_after), sampled)

    def _text_after(self, before: Chat, after: Chat, sampled: tuple[int, ...]) -> str | None:
        """What the template puts behind a sampled message; None where it changes what stands before or in it."""
        text_before = self._render(before)
        whole = self._render((*before, ("assistant", _SENTINEL), *after))
        gap, sentinel, text_after = whole[len(text_before) :].partition(_SENTINEL)
        if not whole.startswith(text_before) or not sentinel or gap.strip():
            return None
        said = self.decode(sampled).strip()
        if split_reasoning(said, opened=self._opens_reasoning)[0]:
            kept = self._render((*before, ("assistant", said), *after))
            if not kept.startswith(text_before) or not kept[len(text_before) :].lstrip().startswith(said):
                return None
        return text_after

    def _after_stop(self, ids: tuple[int, ...], sampled: tuple[int, ...]) -> tuple[int, ...]:
        """`ids` without the end of turn that was sampled already."""
        stop = sampled[-1] if sampled else None
        if stop not in self.stop_token_ids or stop not in ids:
            return ids
        place = ids.index(stop)
        return ids[place + 1 :] if not self.tokenizer.decode(list(ids[:place])).strip() else ids

    def _warn_of_unknown_kwargs(self) -> None:
        unknown = [name for name in self._kwargs if name not in str(self.tokenizer.chat_template)]
        if unknown:
            warnings.warn(f"the model's chat template knows nothing of {', '.join(unknown)}", stacklevel=3)

    def _warn_of_rewriting(self) -> None:
        if not self._rewriting_said:
            self._rewriting_said = True
            warnings.warn(
                "this chat template rewrites earlier messages (it drops earlier thinking, for one), so prompts are "
                "rendered anew and a trajectory becomes several rows",
                stacklevel=2,
            )

    def _fold(self, chat: Chat) -> Chat:
        """The chat as the template can take it: a system prompt moved into the first user message where need be."""
        if self._has_system or not chat or chat[0][0] != "system":
            return chat
        system, rest = chat[0][1], chat[1:]
        if rest and rest[0][0] == "user":
            return (("user", f"{system}\n\n{rest[0][1]}"), *rest[1:])
        return (("user", system), *rest)

    def _probe_system(self) -> bool:
        """Whether the template renders a system message. Raises ValueError where it cannot even render a user's."""
        if _SENTINEL not in self._render((("user", _SENTINEL),)):
            raise ValueError("the model's chat template leaves out what the user says")
        try:
            return _SENTINEL in self._render((("system", _SENTINEL), ("user", "x")))
        except ValueError:
            return False

    def _find_end(self) -> tuple[int, ...]:
        """The special token that the template puts behind a message, else the end of sequence; none without either."""
        chat = (("user", "x"), ("assistant", _SENTINEL), ("user", "x"))
        behind = self._encode(self._render(chat).rpartition(_SENTINEL)[2].lstrip())[:1]
        added = {*self.tokenizer.all_special_ids, *self.tokenizer.get_added_vocab().values()}
        return behind if behind and behind[0] in added else self._end_of_sequence()

    def _end_of_sequence(self) -> tuple[int, ...]:
        end = self.tokenizer.eos_token_id
        return () if end is None else (int(end),)

    def _render_chat(self, chat: Chat) -> str:
        from jinja2.exceptions import TemplateError

        messages = [{"role": role, "content": content} for role, content in chat]
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self._kwargs
            )
        except (TemplateError, TypeError) as error:
            roles = ", ".join(role for role, _ in chat)
            given = f" with {self._kwargs}" if self._kwargs else ""
            raise ValueError(f"the model's chat template refuses the roles [{roles}]{given}: {error}") from error
        return str(text)

    def _encode_text(self, text: str) -> tuple[int, ...]:
        """Ids of rendered text. The template writes the BOS where the model wants one, so none is added."""
        text = text.encode(errors="replace").decode()  # half a surrogate pair is no text to a tokenizer
        return tuple(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str, str]:
    """`(reasoning, rest)` of a message that may begin with a reasoning block.

    Args:
        opened: the prompt ended with the opening tag, so the message begins inside the block.

    Returns:
        The block's text without its tags, and what follows it; `("", text)` without a block. A block never closed
        leaves nothing: the message was cut while thinking.
    """
    start = text.lstrip()
    for opening, closing in REASONING_TAGS:
        inside = start.startswith(opening)
        if inside or (opened and closing in text):
            body = start[len(opening) :] if inside else text
            reasoning, _, rest = body.partition(closing)
            return reasoning.strip(), rest.lstrip()
    return (text.strip(), "") if opened else ("", text)


def _special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The special tokens that are no part of a message's text: all but reasoning tags."""
    tags = {tag for pair in REASONING_TAGS for tag in pair}
    named = zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    return {int(token_id) for token_id, token in named if token not in tags}


def _special_texts(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """What special tokens look like in text, but for reasoning tags."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    return (added | set(tokenizer.all_special_tokens)) - {tag for pair in REASONING_TAGS for tag in pair}


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds any of the texts, the longest first; one that finds nothing where there are none."""
    longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _opening_tag_at_end(prompt: str) -> bool:
    return prompt.rstrip().endswith(tuple(opening for opening, _ in REASONING_TAGS))


def _configured_stops(folder: str | Path) -> tuple[int, ...]:
    """`eos_token_id` of a model folder's generation config; none where it has no such file."""
    from transformers import GenerationConfig

    try:
        eos = GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:
        return ()
    return () if eos is None else tuple(eos) if isinstance(eos, (list, tuple)) else (int(eos),)
