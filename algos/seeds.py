"""Random numbers by name: every draw of a run is a function of its seed and of what it is drawn for."""

from __future__ import annotations

import numpy as np


def seed_of(*words: int) -> int:
    """One 32-bit seed from non-negative integers, e.g. the run's seed and the step."""
    return int(np.random.SeedSequence(words).generate_state(1)[0])
