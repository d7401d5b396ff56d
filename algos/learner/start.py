"""DeepSpeed is started, and asked whether it can read a file."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch

from algos import ranks
from algos.config import LearnerConfig
from algos.deepspeed_config import deepspeed_config


def start_deepspeed() -> Any:
    """DeepSpeed on top of the process group."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    warnings.filterwarnings("ignore", r".*is deprecated\. Please", FutureWarning)  # what DeepSpeed uses of PyTorch
    warnings.filterwarnings("ignore", r".*is deprecated\. Please", DeprecationWarning)
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)  # it warns of PyTorch's own optimizers
    ranks.start()
    # Its CPU collectives are compiled at first use, for minutes; gloo's need no compiler.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    deepspeed.init_distributed(dist_backend=backend, verbose=False, auto_mpi_discovery=False)
    return deepspeed


def check_deepspeed(config: LearnerConfig, *, bf16: bool) -> None:
    """Let DeepSpeed itself read a user's file, before anything is loaded. Raises ValueError where it refuses."""
    if config.deepspeed is None:
        return
    deepspeed, told = start_deepspeed(), deepspeed_config(config, bf16=bf16, ranks=ranks.count())
    try:
        deepspeed.DeepSpeedConfig(told)
    except (ValueError, AssertionError, deepspeed.runtime.config.DeepSpeedConfigError) as error:
        raise ValueError(f"--deepspeed {config.deepspeed}: {' '.join(str(error).split())}") from None
