"""`--dry-run`: what a step consists of and the memory it needs, from config.json alone. Nothing is loaded.

Bytes on one GPU, with P parameters a policy, R ranks, T tokens a micro-batch, b bytes a weight (2 in bfloat16, else 4):

    weights          b P / (R under ZeRO-3)                       each policy that learns; a frozen one b P
    master weights   4 P / (R under ZeRO-1..3)                    with bfloat16; in host memory with optimizer offload
    gradients        4 P / (R under ZeRO-2..3)                    summed over micro-batches in float32; under ZeRO-3 a
                                                                  buffer that stays, of every policy that learns
    optimizer        8 P / (R under ZeRO-1..3) for AdamW, 0 for SGD
    activations      checkpointed: b T H L + one layer's b T (16 H + 5 I); else b T L (16 H + 5 I)
    logits           3 chunks of 64 MiB
    reference        b P, where a KL term needs one
    sampler          b P a policy, and keys and values of 16 dialogues of full length (more are served where room is)

With LoRA only the adapters' parameters have gradients, master weights and optimizer states, and all policies share one
base, in vLLM too. Optimizer states and master weights (ZeRO 1 to 3) wait in host memory while dialogues are played or
another policy learns, the base under adapters (ZeRO 0 to 2) while dialogues are played; during the update vLLM sleeps.
So a GPU needs the larger of the two phases. H is the hidden size, I the intermediate size, L the number of layers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algos.config import TrainConfig
from algos.deepspeed_config import read_deepspeed_file, zero_stage
from algos.head import CHUNK_ELEMENTS

GB = 10**9
OVERHEAD = 1.5 * GB
"""What CUDA, its libraries and communication buffers take of a GPU."""


@dataclass(frozen=True)
class Gpus:
    """`4x48GB`: how many, and how many bytes each."""

    count: int
    bytes: float

    @classmethod
    def parse(cls, text: str) -> Gpus:
        """Raises ValueError for anything else."""
        found = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)GB", text)
        if not found or not int(found[1]):
            raise ValueError(f"--gpus {text} is not COUNTxSIZE, e.g. 4x48GB")
        return cls(int(found[1]), float(found[2]) * GB)


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes, from its config.json."""

    hidden: int
    intermediate: int
    layers: int
    vocabulary: int
    kv_width: int
    attention_width: int
    tied: bool
    biases: int = 0

    @classmethod
    def read(cls, folder: str) -> Shape:
        """Raises ValueError where config.json is missing or is not a decoder's."""
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise ValueError(f"--dry-run reads {path}, which does not exist: give a local model folder")
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            heads = told["num_attention_heads"]
            width = told.get("head_dim") or told["hidden_size"] // heads
            kv = width * (told.get("num_key_value_heads") or heads)
            qkv_bias = told.get("attention_bias", told.get("model_type") == "qwen2")
            return cls(
                told["hidden_size"],
                told["intermediate_size"],
                told["num_hidden_layers"],
                told["vocab_size"],
                kv,
                width * heads,
                bool(told.get("tie_word_embeddings")),
                (width * heads + 2 * kv) if qkv_bias else 0,
            )
        except KeyError as missing:
            raise ValueError(f"{path} has no {missing}: only decoders of the Llama kind can be planned for") from None
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise ValueError(f"{path} is not the config.json of a model: {error}") from None

    @property
    def layer_parameters(self) -> int:
        """Of one layer: attention, gated feed-forward, two norms."""
        attention = 2 * self.hidden * self.attention_width + 2 * self.hidden * self.kv_width + self.biases
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """Of the whole model, exactly."""
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * self.layer_parameters + embeddings + self.hidden

    def adapter_parameters(self, rank: int) -> int:
        """Of LoRA on every linear layer but the head."""
        H, A, K, I = self.hidden, self.attention_width, self.kv_width, self.intermediate  # noqa: E741
        widths = ((H, A), (H, K), (H, K), (A, H), (H, I), (H, I), (I, H))
        return self.layers * rank * sum(a + b for a, b in widths)


@dataclass(frozen=True)
class Plan:
    """Bytes by part.

    Attributes:
        update: on one GPU while learning.
        sample: on one GPU while dialogues are played.
        host: in one machine's memory, of all its ranks.
    """

    update: Mapping[str, float]
    sample: Mapping[str, float]
    host: Mapping[str, float]

    @property
    def peak(self) -> Mapping[str, float]:
        """The phase that needs more of a GPU."""
        return max(self.update, self.sample, key=lambda parts: sum(parts.values()))

    def lines(self) -> list[str]:
        """The plan as a table, largest terms first."""
        out = []
        for title, parts in (("GPU, update", self.update), ("GPU, sampling", self.sample), ("host", self.host)):
            total = sum(parts.values())
            out.append(f"{title:<40}{total / GB:9.2f} GB")
            ordered = sorted(parts.items(), key=lambda item: -item[1])
            out += [f"    {name:<36}{size / GB:9.2f} GB" for name, size in ordered if size]
        return out


def make_plan(config: TrainConfig, shape: Shape, policies: int, learning: int, gpus: Gpus, *, reference: bool) -> Plan:
    """The memory of a run.

    Args:
        policies: sets of weights that play here (not on a server), e.g. 2 with separate weights.
        learning: how many of them learn.
        reference: whether a KL term needs a frozen copy.
    """
    c, m = config.learner, config.model
    stage, R, P = zero_stage(c), gpus.count, shape.parameters
    b = 4 if m.bf16 is False else 2
    told = read_deepspeed_file(c, bf16=b == 2, ranks=R).get("zero_optimization", {})
    offloaded = told.get("offload_optimizer", {}).get("device", "none") == "cpu"
    lora, vllm = bool(m.lora_rank), m.sampler in ("auto", "vllm")
    trained = shape.adapter_parameters(m.lora_rank) if m.lora_rank else P
    by_1, by_2, by_3 = (R if stage >= s else 1 for s in (1, 2, 3))
    weights = b * P * (1 if lora else learning) / by_3
    adapters = float(b * trained * learning) if lora else 0.0
    states = {
        "master weights": (4 * trained * learning / by_1) if b == 2 else 0.0,
        "optimizer states": (8 * trained * learning / by_1) if c.optimizer == "adamw" else 0.0,
    }
    moves = stage >= 1 and c.offload_while_sampling
    base_moves = lora and stage < 3 and c.offload_while_sampling
    copies = 1 + policies - learning if lora and vllm else policies
    longest = config.limits.max_prompt_length + config.limits.max_completion_length
    keys_and_values = 2 * shape.layers * shape.kv_width * b * longest
    concurrent = min(
        config.limits.max_concurrency, config.sampling.problems_per_step * config.sampling.num_generations // R
    )
    at_once = 1 if moves else learning  # of several policies only the one that learns has its states on the GPU
    on_gpu = {} if offloaded else {name: size * at_once / learning for name, size in states.items()}
    stays = stage == 3 and not offloaded  # the buffer of gradients: DeepSpeed moves ZeRO-3's states, but never this
    buffer = 4.0 * trained * learning / R if stays else 0.0
    update = {
        "weights": weights,
        "adapters": adapters,
        "gradients": buffer or 4.0 * trained * at_once / by_2,
        **on_gpu,
        "activations": activations(config, shape, b),
        "logits": 3 * 4.0 * CHUNK_ELEMENTS,
        "reference": float(b * P) if reference and not m.lora_rank else 0.0,
        "sampler weights": 0.0 if vllm else float(b * P * copies),
        "libraries": OVERHEAD,
    }
    sample = {
        "weights": 0.0 if base_moves else weights,
        "adapters": adapters,
        "gradients": buffer,
        **({} if moves else on_gpu),
        "reference": update["reference"],
        "sampler weights": float(b * P * copies),
        "keys and values": float(keys_and_values * min(concurrent, KV_DIALOGUES)) if copies else 0.0,
        "libraries": OVERHEAD,
    }
    in_host = sum(states.values()) * R if offloaded or moves else 0.0
    host = {
        "optimizer states and master weights": in_host,
        "base under adapters": float(b * P * R) if base_moves else 0.0,
        "sampler asleep": float(b * P * R * copies) if lora and vllm else 0.0,
        "loading": float(b * P),
    }
    return Plan(update, sample, host)


KV_DIALOGUES = 16
"""Fewer dialogues than this at once would starve a sampler; more are served where memory is left."""


def activations(config: TrainConfig, shape: Shape, b: int) -> float:
    """Bytes that the backward pass of one micro-batch needs."""
    T = config.learner.micro_batch_tokens
    layer = b * T * (16 * shape.hidden + 5 * shape.intermediate)
    if config.learner.gradient_checkpointing:
        return float(b * T * shape.hidden * shape.layers + layer)
    return float(shape.layers * layer)


def refuse_what_cannot_fit(plan: Plan, gpus: Gpus) -> None:
    """Raises ValueError, naming the largest term and ways out, where a GPU would be too small."""
    parts = plan.peak
    total = sum(parts.values())
    if total <= gpus.bytes:
        return
    largest, second = sorted(parts, key=lambda name: -parts[name])[:2]
    raise ValueError(
        f"this needs {total / GB:.1f} GB on each GPU and there are {gpus.bytes / GB:g} GB; the largest term is "
        f"{largest}, {parts[largest] / GB:.1f} GB; {WAYS_OUT[largest]}; the next is {second}, "
        f"{parts[second] / GB:.1f} GB; {WAYS_OUT[second]}"
    )


def refuse_a_small_share(plan: Plan, gpus: Gpus, share: float) -> None:
    """Raises ValueError where vLLM's share of a GPU is too small for what it has to hold."""
    needs = plan.sample["sampler weights"] + plan.sample["keys and values"]
    if needs > share * gpus.bytes:
        raise ValueError(
            f"--vllm-gpu-memory-utilization {share:g} gives vLLM {share * gpus.bytes / GB:.1f} GB of "
            f"{gpus.bytes / GB:g}, and its weights, keys and values need {needs / GB:.1f} GB: raise it to "
            f"{needs / gpus.bytes + 0.005:.2f}"
        )


_SPREAD = (
    "spread it with a higher --zero-stage over more GPUs, move it to the host (--deepspeed FILE), or use --lora-rank"
)
WAYS_OUT: Mapping[str, Any] = {
    "weights": "use --zero-stage 3 over more GPUs, or one base for all with --lora-rank",
    "adapters": "lower --lora-rank",
    "gradients": _SPREAD,
    "master weights": _SPREAD,
    "optimizer states": _SPREAD,
    "activations": "lower --micro-batch-tokens or use --gradient-checkpointing",
    "logits": "use a larger GPU",
    "reference": "train without a KL term (--beta 0), or with --lora-rank, whose reference is the base itself",
    "sampler weights": "use --team shared, or a server of its own (--sampler remote)",
    "keys and values": "lower --max-prompt-length",
    "libraries": "use a larger GPU",
}
