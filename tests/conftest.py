"""What all tests share: one thread a process, reproducible draws, the real data sets, one real model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.served import Engine, Served

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when a test first imports it
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("DS_ACCELERATOR", "cpu")

pytest.register_assert_rewrite("tests.rema_agents.contract")  # its checks fail with the values, as tests do

DATA = os.environ.get("REMA_DATA")
if DATA is not None:
    DATA = os.environ["REMA_DATA"] = str(Path(DATA).resolve())  # tests and their child processes change folders

# A deadline measures the machine, not the code. On a build server the same examples are drawn each time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data sets that REMA_DATA names; tests on it are skipped where it is not set."""
    if DATA is None:
        pytest.skip("REMA_DATA does not name the folder of real data sets")
    return Path(DATA)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a model folder; converted once for each machine, in half a minute."""
    from benchmarks.smollm2 import cache_folder, smollm2

    return smollm2(cache_folder())


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A small model behind a real `vllm serve`, which takes weights; tests with it belong to the xdist group vllm."""
    from tests.served import serve

    with serve(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A small model in a vLLM engine; tests with it belong to the xdist group vllm."""
    from rema_agents.vllm import VLLMSampler
    from tests.served import Engine, small_folder

    folder = small_folder(tmp_path_factory.mktemp("engine"), tied=True)
    sampler = VLLMSampler(folder, max_model_len=512, max_num_seqs=32, weights="ipc")
    yield Engine(sampler, folder)
    sampler.close()
