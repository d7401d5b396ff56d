"""How many tokens of prompt and completion an engine is made for."""

from __future__ import annotations

from pathlib import Path

LONGEST_BY_DEFAULT = 8192


def length_of(folder: str | Path, wanted: int | None) -> int:
    """The length that an engine is made for; raises ValueError for one that the model does not take."""
    from transformers import AutoConfig

    positions = getattr(AutoConfig.from_pretrained(folder).get_text_config(), "max_position_embeddings", None)
    if wanted is None:
        return min(positions or LONGEST_BY_DEFAULT, LONGEST_BY_DEFAULT)
    if positions is not None and wanted > positions:
        raise ValueError(
            f"--max-prompt-length and --max-completion-length come to {wanted} tokens and {folder} takes {positions}: "
            f"lower them by {wanted - positions} together"
        )
    return wanted
