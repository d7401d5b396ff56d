"""Our GRPO loss against TRL's on one single-turn batch, real models and real trainers on both sides."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from algos.algorithm import Out
from algos.grpo import GRPOConfig, loss
from algos.other_names import LOSS_TYPES
from tests.algos.batches import batch_of, weighed

PROMPT, COMPLETION = 5, 7
LENGTHS = [7, 3, 5, 1]


@pytest.fixture(scope="module")
def inputs() -> dict[str, torch.Tensor]:
    """Four completions of different length, off-policy, as TRL's loss takes them."""
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(COMPLETION) < torch.tensor(LENGTHS)[:, None]).int()

    def noise(scale: float) -> torch.Tensor:
        return scale * torch.randn(4, COMPLETION, generator=generator, dtype=torch.float64)

    return {
        "prompt_ids": torch.randint(3, 20, (4, PROMPT), generator=generator),
        "prompt_mask": torch.ones(4, PROMPT, dtype=torch.int32),
        "completion_ids": torch.randint(3, 20, (4, COMPLETION), generator=generator),
        "completion_mask": mask,
        "advantages": torch.tensor([1.0, -0.5, 0.7, -1.2], dtype=torch.float64),
        "noise": noise(0.3),
        "ref_noise": noise(0.5),
        "num_items_in_batch": mask.sum(),
    }


def trl_trainer(folder: Path, embedded: Path, settings: dict[str, Any]) -> Any:
    """TRL's trainer around the embedded model in float64."""
    trl = pytest.importorskip("trl")
    datasets = pytest.importorskip("datasets")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    args = trl.GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=4,
        num_generations=4,
        steps_per_generation=1,
        max_completion_length=COMPLETION,
        gradient_checkpointing=False,
        use_bias_correction_kl=False,  # a weight of the KL that is on only there
        **settings,
    )
    return trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(embedded, dtype=torch.float64),
        args=args,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=datasets.Dataset.from_list([{"prompt": "1"}] * 4),
        processing_class=AutoTokenizer.from_pretrained(embedded),
    )


@pytest.mark.parametrize(
    ("loss_type", "level", "beta"),
    [
        ("grpo", "token", 0.0),
        ("dapo", "token", 0.0),
        ("bnpo", "token", 0.1),
        ("dr_grpo", "token", 0.1),
        ("grpo", "sequence", 0.0),
        ("grpo", "token", 0.1),
    ],
)
@pytest.mark.filterwarnings("ignore")  # of TRL and of what it imports
def test_the_loss_and_its_gradient_are_trls(
    loss_type: str, level: str, beta: float, inputs: dict[str, torch.Tensor], tmp_path: Path, embedded: Path
) -> None:
    settings = {"loss_type": loss_type, "importance_sampling_level": level, "beta": beta}
    clip: dict[str, Any] = {"epsilon": 0.2, "epsilon_high": 0.28}
    with warnings.catch_warnings(action="ignore"):
        trainer = trl_trainer(tmp_path, embedded, {**settings, **clip})
    trainer.current_gradient_accumulation_steps = 1  # its train() sets this
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    model = trainer.model.train()
    logits = model(input_ids=ids).logits[:, PROMPT - 1 : -1]
    logp = torch.log_softmax(logits, -1).gather(2, inputs["completion_ids"][..., None])[..., 0]
    old, ref = (logp.detach() + inputs[name] for name in ("noise", "ref_noise"))
    given = {**inputs, "old_per_token_logps": old, "ref_per_token_logps": ref}
    in_float32 = trainer._compute_loss(model, given)  # its own fused head, whatever the model's precision
    score = trainer._get_per_token_logps_and_entropies
    trainer._get_per_token_logps_and_entropies = lambda *args, **more: (logp, *score(*args, **more)[1:])
    theirs = trainer._compute_loss(model, given)

    turn = [[0] * n + [-1] * (COMPLETION - n) for n in LENGTHS]
    batch = weighed(batch_of(turn), LOSS_TYPES[loss_type], length=COMPLETION).with_tensors(
        old_logp_BT=old, ref_logp_BT=ref, adv_BT=inputs["advantages"][:, None].expand(4, COMPLETION)
    )
    ratio: Any = "token" if level == "token" else "sequence"
    ours, _ = loss(Out(logp), batch, config=GRPOConfig(ratio=ratio, beta=beta, **clip))
    assert float(ours.detach()) == pytest.approx(float(in_float32.detach()), abs=1e-6)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), abs=1e-12)
    weights = [p for p in model.parameters() if p.requires_grad]
    ours_grad, theirs_grad = (
        torch.cat([g.flatten() for g in torch.autograd.grad(value, weights, retain_graph=True)])
        for value in (ours, theirs)
    )
    assert float((ours_grad - theirs_grad).norm() / theirs_grad.norm()) < 1e-12
