"""Tokenizer and architecture of the embedded model; run as a script, it writes both into the model folder.

The tokenizer knows the phrases that every dialogue repeats as single tokens and takes everything else apart into the
bytes of its UTF-8: any text can be encoded and decodes to itself. Text that spells a role header (`<|user|>`) becomes
that header, as in other tokenizers.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

from rema_agents.tiny import MODEL_FOLDER, SYSTEM_PROMPTS

PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|system|>", "<|user|>", "<|assistant|>")
PHRASES = (
    *(prompt for prompts in SYSTEM_PROMPTS.values() for prompt in prompts.values()),
    "Question:\n",
    "\n\nInstruction:\n",
    "Compute ",
    " then ",
    " modulo 10.",
    " [FINISH]",
    "\\boxed{",
)
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
CONTEXT = 1024  # tokens

CHAT_TEMPLATE = (
    "{%- for message in messages -%}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Special tokens, then phrases, then bytes; the ids are their places in this order."""
    vocabulary = [(token, 0.0) for token in (*SPECIAL, *PHRASES, *BYTES)]
    raw = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))  # bytes serve, unk_id never comes up
    raw.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    raw.add_special_tokens(list(SPECIAL))
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token=PAD,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )


def config() -> LlamaConfig:
    """A Llama of 273 thousand weights; 1.1 MB in float32.

    The large `initializer_range` lets so narrow a network learn at once what takes it very long from the usual 0.02.
    """
    words = tokenizer()
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=len(words),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        head_dim=32,  # a size that vLLM has CPU kernels for
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )


def write(folder: Path) -> None:
    """Everything of a model folder but the weights, which `algos.sft` makes."""
    tokenizer().save_pretrained(folder)
    config().save_pretrained(folder)
    GenerationConfig.from_model_config(config()).save_pretrained(folder)


if __name__ == "__main__":
    write(MODEL_FOLDER)
