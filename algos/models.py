"""Where a model is: the embedded one, a model folder, a checkpoint, a run folder, or a name on the hub."""

from __future__ import annotations

from pathlib import Path

from algos.run_folder import latest_checkpoint

EMBEDDED = "embedded"
SHARED = "policy"
"""The folder of shared weights within a checkpoint; separate ones are named by their role."""


def model_folder(name_or_path: str, policy: str = SHARED) -> str:
    """The Hugging Face folder (or hub name) that holds one policy's weights.

    Args:
        name_or_path: `embedded`, a model folder, a checkpoint, a run folder, or a hub name.
        policy: which one of a checkpoint: `policy`, or a role's name. A checkpoint of shared weights serves any role.

    Raises:
        ValueError: the path exists but holds no such model.
    """
    if name_or_path == EMBEDDED:
        from rema_agents.tiny import MODEL_FOLDER

        return str(MODEL_FOLDER)
    path = Path(name_or_path)
    if not path.exists():
        if name_or_path.startswith((".", "/", "~")) or name_or_path.count("/") > 1:
            raise ValueError(f"--model-name-or-path {name_or_path}: there is no such folder")
        return name_or_path
    for folder in (path, *(_checkpoint(path) / name for name in (policy, SHARED))):
        if (folder / "config.json").is_file():
            return str(folder)
    raise ValueError(
        f"{name_or_path} holds no model: neither config.json, nor {policy}/ or {SHARED}/, nor final/, best/ or latest"
    )


def local_folder(folder: str) -> Path:
    """The folder itself, or where a hub name's files lie on this machine."""
    if Path(folder).is_dir():
        return Path(folder)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(folder))


def _checkpoint(path: Path) -> Path:
    """The checkpoint that a path stands for: of a run the final one, else the latest, else the best."""
    if (path / "final").is_dir():
        return path / "final"
    return latest_checkpoint(path) or (path / "best" if (path / "best").is_dir() else path)
