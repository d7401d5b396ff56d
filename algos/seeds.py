"""Random numbers by name: every draw of a run is a function of its seed and of what it is drawn for.

The project's own draws need no state. The global generators are seeded, saved and restored all the same, for an
environment or an algorithm of another package that draws from them.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_of(*words: int) -> int:
    """One 32-bit seed from non-negative integers, e.g. the run's seed and the step."""
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def seed_generators(*words: int) -> None:
    """Seed the global generators of Python, NumPy and PyTorch."""
    seed = seed_of(*words)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def generator_states() -> dict[str, Any]:
    """The state of the global generators, as JSON values."""
    kind, keys, *rest = np.random.get_state()
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().tolist()
    return states


def restore_generators(states: dict[str, Any]) -> None:
    """Put the global generators into a state that `generator_states` told."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(states["cuda"], dtype=torch.uint8))
