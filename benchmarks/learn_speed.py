"""What a training step costs against TRL's GRPOTrainer and a minimal loop, and what log-probabilities cost.

    OMP_NUM_THREADS=1 python -m benchmarks.learn_speed

One step is 16 prompts x 8 completions of 64 tokens: sampling, log-probabilities, loss, backward and AdamW, without a
reference model, on a Llama of 9 million parameters with a vocabulary of 32,000, in float32 on one thread. TRL takes
the step as one batch, as it does by default; it needs `pip install trl`. The minimal loop is one `generate`, then
micro-batches sorted by length with the head at completion positions only. Each contender runs in a process of its
own; seconds are the process's own (CPU) seconds, so another load on the machine does not count, and memory is the
peak of its resident set [bytes].

The last line is a JSON object: over_trl (trained tokens a second, ours over TRL's), over_minimal (our seconds over the
minimal loop's), memory_over_trl, padding (padded tokens over real ones in micro-batches of mixed lengths),
logp_memory_ratio and logp_time_ratio (chunked log-probabilities over full logits, forward and backward, without the
head's own gradient, at hidden size 896, vocabulary 151,936 and 1,024 tokens; memory above what stands before).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.learn import minimal, ours, with_trl
from benchmarks.learn.logps import LogpWork, logp
from benchmarks.learn.peak import peak
from benchmarks.learn.work import Work, build_model

CONTENDERS: Mapping[str, Callable[[Work, Path], float]] = {
    "ours": ours.step,
    "minimal": minimal.step,
    "trl": with_trl.step,
}


def padding(micro_batch_tokens: int = 16_384) -> float:
    """Padded tokens over real ones in the micro-batches of 512 rows between 32 and 1,024 tokens."""
    import numpy as np
    import torch

    from algos.batch import Batch, micro_batches

    length_B = torch.from_numpy(np.random.default_rng(0).integers(32, 1025, 512))
    S = len(length_B)
    none_BT, none_S = torch.zeros(S, 0), torch.zeros(S)
    batch = Batch(none_BT, none_BT, none_BT, length_B, torch.arange(S), none_S, none_S, none_S, none_S, ("meta_0",))
    padded = sum(len(index) * int(length_B[index].max()) for index in micro_batches(batch, micro_batch_tokens))
    return padded / int(length_B.sum())


def in_a_process(argv: Sequence[str]) -> dict[str, float]:
    """Run this module once more with these arguments and read the JSON object of its last line."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    env.pop("LOCAL_RANK", None)  # left by a run in this process; TRL would look for a launcher
    argv = [sys.executable, "-m", "benchmarks.learn_speed", *argv]
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def one(contender: str, work: Work, folder: Path) -> dict[str, float]:
    """In this process: one contender's step."""
    return {"seconds": CONTENDERS[contender](work, folder), "memory": peak()}


def ratios(step: Mapping[str, Mapping[str, float]], logps: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The figures of the last line; those against a contender that did not run are left out."""
    mine = step["ours"]
    out = {"over_minimal": mine["seconds"] / step["minimal"]["seconds"], "padding": padding()}
    if "trl" in step:
        out["over_trl"] = step["trl"]["seconds"] / mine["seconds"]
        out["memory_over_trl"] = mine["memory"] / step["trl"]["memory"]
    for name in ("memory", "seconds"):
        out[f"logp_{'time' if name == 'seconds' else name}_ratio"] = logps["chunked"][name] / logps["full"][name]
    return {name: round(value, 4) for name, value in out.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything and print it; with `--only`, one part in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learn_speed", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=(*CONTENDERS, "full", "chunked"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--without-trl", action="store_true", help="leave out TRL, which takes longest")
    parser.add_argument("--small", action="store_true", help="a hundredth of the work, to see that it runs")
    args = parser.parse_args(argv)
    small = ["--small"] if args.small else []
    work = Work(prompts=4, completions=2, length=8, vocabulary=512, hidden=32) if args.small else Work()
    logp_work = LogpWork(tokens=64, hidden=16, vocabulary=8_192) if args.small else LogpWork()
    if args.only:
        import torch

        torch.set_num_threads(1)
        found = one(args.only, work, args.folder) if args.only in CONTENDERS else logp(args.only, logp_work)
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        build_model(work, Path(folder))
        step = {}
        for contender in CONTENDERS:
            if contender == "trl" and args.without_trl:
                continue
            step[contender] = in_a_process(["--only", contender, "--folder", folder, *small])
            figures = step[contender]
            print(f"{contender:<8} {figures['seconds']:8.2f} s  {figures['memory'] / 2**30:6.2f} GiB", flush=True)
    logps = {kind: in_a_process(["--only", kind, *small]) for kind in ("full", "chunked")}
    for kind, figures in logps.items():
        print(f"log-probabilities, {kind:<8} {figures['seconds']:8.2f} s  {figures['memory'] / 2**30:6.2f} GiB more")
    print(json.dumps(ratios(step, logps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
