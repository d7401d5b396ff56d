"""The step that every contender takes, and the model that it takes it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Work:
    """The size of a step and of its model."""

    prompts: int = 16
    completions: int = 8
    length: int = 64
    vocabulary: int = 32_000
    hidden: int = 256
    micro_batch_tokens: int = 2_048

    @property
    def trained_tokens(self) -> int:
        """Of one step."""
        return self.prompts * self.completions * self.length

    def prompt_ids(self) -> list[list[int]]:
        """Prompts of different lengths, the same for every contender."""
        return [[3 + (7 * p + 13 * t) % (self.vocabulary - 3) for t in range(24 + 2 * p)] for p in range(self.prompts)]

    def asked(self) -> list[list[int]]:
        """The prompt of each completion."""
        return [ids for ids in self.prompt_ids() for _ in range(self.completions)]


def build_model(work: Work, folder: Path) -> None:
    """A fresh Llama, the same for every contender, that never ends a message by itself; and a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=work.vocabulary,
        hidden_size=work.hidden,
        intermediate_size=2 * work.hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{n}": n for n in range(3, work.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    fast.save_pretrained(folder)


def reward_of(ids: Sequence[int]) -> float:
    """Something that differs between completions."""
    return float(ids[-1] % 2)
