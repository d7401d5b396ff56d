"""A sampler that follows a script instead of a model: it speaks token ids, through the same protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rema_agents.gate import Gate
from rema_agents.types import Completion, SamplingParams
from rema_env.transcript import Finish

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


class ScriptedSampler:
    """Says what a function of the prompt's text says, as ids, ended by the first stop token.

    Every token has probability one under a script, hence log-probability 0.

    Args:
        tokenizer: encodes what is said and decodes prompts, special tokens included.
        speak: `speak(prompt_text, dialogue) -> text`; a pure function makes a play repeatable.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, speak: Callable[[str, int], str]) -> None:
        self._tokenizer = tokenizer
        self._speak = speak
        self._weight_version = -1  # of no weights at all

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, dialogue: int, gate: Gate
    ) -> Completion:
        """The script's answer, cut at `max_tokens` or behind the first stop token or string."""
        text = self._speak(self._tokenizer.decode(list(prompt_ids), skip_special_tokens=False), dialogue)
        ids = self._tokenizer(text, add_special_tokens=False)["input_ids"] + list(params.stop_token_ids[:1])
        ids, finish = self._cut(ids, params)
        return Completion(tuple(ids), (0.0,) * len(ids), finish, self._weight_version)

    def update_weights(self, named_tensors: Iterable[tuple[str, Tensor]], version: int) -> None:
        """A script has no weights; later completions carry the new version."""
        for _ in named_tensors:
            pass
        self._weight_version = version

    def close(self) -> None:
        """Nothing to free."""

    def _cut(self, ids: list[int], params: SamplingParams) -> tuple[list[int], Finish]:
        for end in range(1, min(len(ids), params.max_tokens) + 1):
            if ids[end - 1] in params.stop_token_ids:
                return ids[:end], Finish.STOP
            if params.stop_strings and any(s in self._tokenizer.decode(ids[:end]) for s in params.stop_strings):
                return ids[:end], Finish.STOP
        cut = len(ids) > params.max_tokens
        return ids[: params.max_tokens], Finish.LENGTH if cut else Finish.STOP
