"""Where a model is: the embedded one, a model folder, a checkpoint, a run folder, or a name on the hub."""

from __future__ import annotations

from pathlib import Path

from rema_agents.tiny import MODEL_FOLDER

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
        return str(MODEL_FOLDER)
    path = Path(name_or_path)
    if not path.exists():
        if name_or_path.startswith((".", "/", "~")) or name_or_path.count("/") > 1:
            raise ValueError(f"{name_or_path}: there is no such folder")
        return name_or_path
    names = dict.fromkeys((policy, SHARED))
    for folder in (path, *(_checkpoint(path) / name for name in names)):
        if (folder / "config.json").is_file():
            return str(folder)
    raise ValueError(
        f"{name_or_path} holds no model: no config.json, no {' or '.join(f'{name}/' for name in names)}, and no "
        "final/, latest or best/ that does"
    )


def local_folder(folder: str) -> Path:
    """The folder itself, or where a hub name's files lie on this machine."""
    if Path(folder).is_dir():
        return Path(folder)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(folder))


def run_of(name_or_path: str) -> Path | None:
    """The run folder that a path names, or in which it is a checkpoint or one policy of it; None where there is none.

    It is known by its config.yaml, which names the model that the run started from.
    """
    path = Path(name_or_path).absolute()
    places = (path, path.parent, path.parent.parent) if path.is_dir() else ()
    return next((place for place in places if _is_run(place / "config.yaml")), None)


def _is_run(config: Path) -> bool:
    return config.is_file() and "model_name_or_path:" in config.read_text(encoding="utf-8", errors="replace")


def _checkpoint(path: Path) -> Path:
    """The checkpoint that a path stands for: of a run the final one, else the latest, else the best."""
    if (path / "final").is_dir():
        return path / "final"
    return latest_checkpoint(path) or (path / "best" if (path / "best").is_dir() else path)


def latest_checkpoint(run: Path) -> Path | None:
    """The checkpoint that `latest` names, also where a process was killed while it was being replaced.

    Where `latest` is missing or names nothing, the newest that there is: a folder of that name is always whole.
    """
    pointer = run / "latest"
    name = pointer.read_text(encoding="utf-8", errors="replace").strip() if pointer.is_file() else ""
    for path in (run / name, run / f"{name}.old") if name else ():
        if path.is_dir():
            return path
    return max(checkpoints(run), key=step_of, default=None)


def checkpoints(run: Path) -> list[Path]:
    """All whole checkpoints of a run, oldest first."""
    found = (p for p in run.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdecimal())
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))
