"""The system prompts that a model was taught with, kept beside its weights: `--system-prompts` reads the file again.

Prompts that differ between cold start, training and evaluation cost accuracy without a word; so they are written into
run and model folders, and a model that comes with others than those in use is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from rema_agents.trained import PROMPTS
from rema_env.roles import digest


def write_prompts(folder: Path, prompts: Mapping[str, str]) -> None:
    """Keep role -> text in a folder, headed by its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(dict(prompts), sort_keys=True, allow_unicode=True)
    (folder / PROMPTS).write_text(f"# digest {digest(prompts)}\n{text}", encoding="utf-8")


def mismatch(folder: str, prompts: Mapping[str, str]) -> str | None:
    """One sentence where a model folder came with other prompts for the roles in use; None where it did not.

    Args:
        folder: of the model; one without the file says nothing.
        prompts: role -> text in use.
    """
    file = Path(folder) / PROMPTS
    if not file.is_file():
        return None
    kept = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    taught = {role: kept.get(role, "") for role in prompts}
    if taught == dict(prompts):
        return None
    roles = ", ".join(role for role in prompts if taught[role] != prompts[role])
    return (
        f"{folder} was taught with other system prompts for {roles} (digest {digest(taught)}) than those in use "
        f"(digest {digest(prompts)}); --system-prompts {file} uses its own"
    )
