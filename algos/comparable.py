"""Whether two evaluations of a run compare: the same problems, asked in the same way.

A run that goes on may be told to evaluate on others; what was measured before then says nothing about what is now.
"""

from __future__ import annotations

import hashlib
import json

from algos.evaluate import provenance
from algos.schedule import last_rounds
from algos.state import Run


def asked(run: Run) -> dict[str, str]:
    """Evaluation set -> sixteen hexadecimal digits that name its problems and how they are asked and graded."""
    config, env, evaluation = run.config, run.config.env, run.config.evaluation
    how = {
        "env": (env.env, env.env_kwargs, env.process, env.on_cut),
        "rounds": evaluation.eval_max_rounds or last_rounds(env.max_rounds),
        "chat": (config.model.chat_template_kwargs, config.model.share_thinking, config.limits.max_prompt_length),
        "length": evaluation.eval_max_completion_length or config.limits.max_completion_length,
        "temperature": evaluation.eval_temperature,
        **{name: value for name, value in provenance(run.world).items() if name != "version"},
    }
    return {
        name: _digest([how, [(p.question, p.answer, dict(p.extra)) for p in problems]])
        for name, problems in run.sets.items()
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def forget_what_no_longer_compares(run: Run) -> None:
    """Leave out accuracies before training that were measured otherwise than is now."""
    progress, now = run.progress, asked(run)
    if progress.before is None or progress.asked == now:
        return
    same = {name for name, digest in now.items() if progress.asked.get(name) == digest}
    other = ", ".join(name for name in now if name not in same) or "fewer sets"
    run.console.warn(
        f"evaluation is on other problems than at the start of this run, or asks and grades otherwise ({other}): "
        "accuracy before training is not compared with, and best/ is chosen anew"
    )
    progress.before = {name: scores for name, scores in progress.before.items() if name in same}
    progress.asked = now
