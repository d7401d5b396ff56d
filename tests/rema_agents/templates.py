"""Chat formats of public model families, written from their public specification, with tokenizers fit for a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CHATML = """
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

WITH_DEFAULT_SYSTEM = """
{%- if messages[0].role != 'system' %}
{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
{%- endif %}
""" + CHATML.lstrip()

QWEN3 = """
{%- set ns = namespace(last_user=-1) %}
{%- for message in messages %}
{%- if message.role == 'user' %}{%- set ns.last_user = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'assistant' and '</think>' in content and loop.index0 < ns.last_user %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
"""

STRICT = """
{%- if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}
{{- raise_exception('No user query found in messages.') }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'system' and not loop.first %}
{{- raise_exception('System message must be at the beginning.') }}
{%- endif %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

LLAMA3 = """
{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
"""

GEMMA = """
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'system' %}{{- raise_exception('System role not supported') }}{%- endif %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message.role == 'assistant' else message.role %}
{{- '<start_of_turn>' + role + '\n' + message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{%- endif %}
"""

MISTRAL = """
{{- bos_token }}
{%- for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- if message.role == 'user' %}{{- '[INST] ' + message.content + ' [/INST]' }}
{%- else %}{{- ' ' + message.content + eos_token }}{%- endif %}
{%- endfor %}
"""

MISTRAL_V3 = """
{{- bos_token }}
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- for message in messages if message.role != 'system' %}
{%- if message.role == 'user' %}
{{- '[INST] ' + (system + '\n\n' if system and loop.last else '') + message.content + '[/INST]' }}
{%- else %}{{- ' ' + message.content + eos_token }}{%- endif %}
{%- endfor %}
"""

REASONER = """
{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|Assistant|>' + message.content.split('</think>')[-1] + eos_token }}
{%- else %}{{- '<|User|>' + message.content }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|Assistant|><think>\n' }}{%- endif %}
"""


@dataclass(frozen=True)
class Family:
    """One chat format.

    Attributes:
        end: the token that ends a message in the template.
        eos: the tokenizer's end of sequence.
        bos: the token every prompt begins with, None where the family has none.
        system: whether the template takes a system message.
        grows: whether a prompt is always an extension of the one before and what was sampled.
    """

    template: str
    end: str
    eos: str
    bos: str | None = None
    special: tuple[str, ...] = ()
    system: bool = True
    grows: bool = True
    kwargs: dict[str, object] = field(default_factory=dict)


_IM = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end_of_text|>", "<|begin_of_text|>")

FAMILIES = {
    "chatml": Family(CHATML, "<|im_end|>", "<|im_end|>", special=_IM),
    "qwen2.5": Family(WITH_DEFAULT_SYSTEM, "<|im_end|>", "<|im_end|>", special=_IM),
    "smollm2": Family(WITH_DEFAULT_SYSTEM, "<|im_end|>", "<|im_end|>", special=_IM),
    "qwen3": Family(QWEN3, "<|im_end|>", "<|im_end|>", special=_IM),
    "qwen3 without thinking": Family(
        QWEN3, "<|im_end|>", "<|im_end|>", special=_IM, grows=False, kwargs={"enable_thinking": False}
    ),
    "strict": Family(STRICT, "<|im_end|>", "<|im_end|>", special=_IM),
    "llama3": Family(LLAMA3, "<|eot_id|>", "<|end_of_text|>", "<|begin_of_text|>", _HEADERS),
    "gemma": Family(
        GEMMA, "<end_of_turn>", "<eos>", "<bos>", ("<start_of_turn>", "<end_of_turn>", "<eos>", "<bos>"), system=False
    ),
    "mistral": Family(MISTRAL, "</s>", "</s>", "<s>", ("<s>", "</s>"), system=False),
    "mistral v3": Family(MISTRAL_V3, "</s>", "</s>", "<s>", ("<s>", "</s>"), grows=False),
    "r1": Family(REASONER, "<eos>", "<eos>", "<bos>", ("<bos>", "<eos>", "<|User|>", "<|Assistant|>"), grows=False),
}

_CORPUS = [
    "Compute 3+8 modulo 10. The answer is \\boxed{1}. (12)(12) 42 user assistant system model",
    "Let me think step by step. First multiply, then add. [FINISH]",
]


@cache
def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE of 600 entries with the family's special tokens, adding a BOS by itself as the family's does."""
    family = FAMILIES[name]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(_CORPUS * 4, trainer)
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in family.special])
    if family.bos is not None:
        core.post_processor = processors.TemplateProcessing(
            single=f"{family.bos} $A", special_tokens=[(family.bos, core.token_to_id(family.bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=family.bos, eos_token=family.eos, chat_template=family.template
    )
