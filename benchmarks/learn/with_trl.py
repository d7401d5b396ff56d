"""The step of TRL's GRPOTrainer, which takes it as one batch, as it does by default."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.learn.work import Work


def step(work: Work, folder: Path) -> float:
    """Its CPU seconds, from the beginning of the step to its end."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.grpo_trainer import GRPOTrainer

    seconds: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            seconds.append(-time.process_time())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds[-1] += time.process_time()

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        reward_funcs=lambda completions, **_: [float(hash(text) % 2) for text in completions],
        args=_settings(work, folder),
        train_dataset=Dataset.from_dict({"prompt": [" ".join(f"w{i}" for i in ids) for ids in work.prompt_ids()]}),
        callbacks=[Clock()],
    )
    trainer.train()
    return seconds[0]


def _settings(work: Work, folder: Path) -> Any:
    from trl.trainer.grpo_config import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=work.prompts * work.completions,
        num_generations=work.completions,
        max_completion_length=work.length,
        generation_kwargs={"min_new_tokens": work.length},
        learning_rate=1e-5,
        max_steps=1,
        beta=0.0,
        temperature=1.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=10**6,
        dataloader_pin_memory=False,
    )
