"""What an engine has besides the model's weights: optimizer states, master weights, schedule; and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class States:
    """The states of one engine: on its device, resting in host memory, or in a checkpoint.

    Args:
        engine: DeepSpeed's.
        can_rest: whether DeepSpeed can move them away and back.
    """

    def __init__(self, engine: Any, *, can_rest: bool) -> None:
        self._engine, self._can_rest = engine, can_rest
        self.resting = False

    def rest(self) -> None:
        """Move them to host memory until they are needed again."""
        if self._can_rest and not self.resting:
            from deepspeed.runtime.zero.offload_config import OffloadStateTypeEnum as State

            self._engine.offload_states(include=(State.optim_states, State.hp_params, State.contiguous_grad_buffer))
            self.resting = True

    def rise(self) -> None:
        """Bring them back."""
        if self.resting:
            self._engine.reload_states()
            self.resting = False

    def save(self, folder: Path, *, frozen: bool) -> None:
        """Write them, with the weights, for an exact resume; the frozen weights too where `frozen`."""
        self.rise()
        self._engine.save_checkpoint(str(folder), tag="state", save_latest=False, exclude_frozen_parameters=not frozen)

    def load(self, folder: Path, *, frozen: bool) -> None:
        """Restore what `save` wrote, but for the settings of the optimizer, which are as they are now.

        Raises:
            ValueError: there is nothing to restore, or it is damaged or of another form.
        """
        self.rise()
        optimizer, schedule = self._engine.optimizer, self._engine.lr_scheduler
        told = [{n: v for n, v in group.items() if n != "params"} for group in optimizer.param_groups]
        try:
            loaded, _ = self._engine.load_checkpoint(str(folder), tag="state", load_module_strict=frozen)
        except (AssertionError, EOFError, KeyError, OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"--resume-from-checkpoint: the learner's state in {folder} is damaged or of another form "
                f"({' '.join(str(error).split())[:200]}); choose another checkpoint"
            ) from error
        if loaded is None:
            raise ValueError(f"{folder} holds no learner state that this DeepSpeed can read")
        schedule.base_lrs = [group["initial_lr"] for group in told]
        for group, now, factor in zip(optimizer.param_groups, told, schedule.lr_lambdas, strict=True):
            group |= now | {"lr": now["initial_lr"] * factor(schedule.last_epoch)}
