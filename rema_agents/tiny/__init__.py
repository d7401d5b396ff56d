"""The embedded model: a Llama of a quarter of a million weights that does arithmetic in turns, right on a CPU.

It loads as any other model does: `AutoTokenizer` and `AutoModelForCausalLM` from `MODEL_FOLDER`. What it can do comes
from its cold start, noisy dialogues about `rema_env.problems.arithmetic` in all four processes, in which half of the
plans ignore precedence, results slip and some dialogues end too soon. So it speaks each role's part, answers a part of
the problems, and there is something left for reinforcement learning to find. How it was made:

    python -m rema_agents.tiny.build                       tokenizer, chat template, architecture
    OMP_NUM_THREADS=1 python -m algos.sft --preset embedded --output-dir RUN
    cp RUN/final/policy/model.safetensors rema_agents/tiny/model/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MODEL_FOLDER = Path(__file__).parent / "model"
RECIPE = Path(__file__).parent / "cold_start.yaml"

# Processes and roles told apart in one token each; ordinary `system_prompts` arguments of the environment.
SYSTEM_PROMPTS: Mapping[str, Mapping[str, str]] = {
    "multi_turn": {"meta": "Plan.", "reasoner": "Solve."},
    "single_turn": {"meta": "Plan it all.", "reasoner": "Solve it all."},
    "mrp": {"reasoner": "Plan and solve."},
    "vrp": {"reasoner": "Think."},
}
