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
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

CONTENDERS = ("ours", "minimal", "trl")


@dataclass(frozen=True)
class Work:
    """The size of a step and of its model."""

    prompts: int = 16
    completions: int = 8
    length: int = 64
    vocabulary: int = 32_000
    hidden: int = 256
    micro_batch_tokens: int = 2_048

    @property
    def trained_tokens(self) -> int:
        """Of one step."""
        return self.prompts * self.completions * self.length

    def prompt_ids(self) -> list[list[int]]:
        """Prompts of different lengths, the same for every contender."""
        return [[3 + (7 * p + 13 * t) % (self.vocabulary - 3) for t in range(24 + 2 * p)] for p in range(self.prompts)]


def build_model(work: Work, folder: Path) -> None:
    """A fresh Llama, the same for every contender, that never ends a message by itself; and a word-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=work.vocabulary,
        hidden_size=work.hidden,
        intermediate_size=2 * work.hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{n}": n for n in range(3, work.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    fast.save_pretrained(folder)


def reward_of(ids: Sequence[int]) -> float:
    """Something that differs between completions."""
    return float(ids[-1] % 2)


def ours(work: Work, folder: Path) -> float:
    """A step with the loop's own parts; its CPU seconds."""
    import torch

    from algos.batch import make_batch
    from algos.config import LearnerConfig
    from algos.functional import group_advantages, token_shares
    from algos.grpo import GRPOConfig
    from algos.grpo import loss as grpo_loss
    from algos.learner import Learner
    from algos.metrics import logp_gap
    from algos.scoring import Precision
    from rema_agents.hf import HFSampler
    from rema_agents.types import Call, Episode
    from rema_env.transcript import Ending, Problem, Transcript

    precision = Precision(torch.device("cpu"), torch.float32)
    sampler = HFSampler.from_pretrained(folder, dtype=torch.float32, device="cpu")
    config = LearnerConfig(learning_rate=1e-5, gradient_checkpointing=False, micro_batch_tokens=work.micro_batch_tokens)
    learner = Learner(str(folder), config, precision)
    start = time.process_time()
    prompts = [ids for ids in work.prompt_ids() for _ in range(work.completions)]
    done = asyncio.run(_sample(sampler, prompts, work.length))
    episodes = []
    for number, (ids, completion) in enumerate(zip(prompts, done, strict=True)):
        problem = Problem(str(number // work.completions), "", "")
        call = Call("meta_0", 0, tuple(ids), completion)
        paid = {"meta_0": reward_of(completion.token_ids)}
        transcript = Transcript(problem, (), Ending.FINISHED)
        episodes.append(Episode(problem, transcript, (call,), paid, group=number // work.completions))
    batch = make_batch(episodes, ["meta_0"])
    batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
    assert logp_gap(batch)["sampling/logp_gap_max"] < 1e-3
    adv_S = group_advantages(batch.reward_S, batch.group_S)
    batch = batch.with_tensors(
        adv_BT=adv_S[batch.trajectory_B][:, None].expand_as(batch.turn_BT),
        share_BT=token_shares(batch.turn_BT, batch.trajectory_B, "token").float(),
    )
    learner.update(batch, partial(grpo_loss, config=GRPOConfig()))
    sampler.update_weights(learner.named_weights(), 1)
    return time.process_time() - start


async def _sample(sampler: Any, prompts: Sequence[Sequence[int]], length: int) -> list[Any]:
    from rema_agents.gate import Gate
    from rema_agents.types import SamplingParams

    gate, params = Gate(), SamplingParams(length, 1.0)
    asked = (sampler.sample(ids, params, dialogue=number, gate=gate) for number, ids in enumerate(prompts))
    return list(await asyncio.gather(*asked))


def minimal(work: Work, folder: Path) -> float:
    """The least that does the same work; its CPU seconds."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    start = time.process_time()
    prompts = [ids for ids in work.prompt_ids() for _ in range(work.completions)]
    longest = max(map(len, prompts))
    left_BT = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])
    mask_BT = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    with torch.no_grad():
        length = {"max_new_tokens": work.length, "min_new_tokens": work.length}
        out_BT = model.generate(left_BT, attention_mask=mask_BT, do_sample=True, top_k=0, **length)
    said = out_BT[:, longest:]
    reward = torch.tensor([reward_of(ids) for ids in said.tolist()]).view(work.prompts, work.completions)
    adv = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)).flatten()
    rows = sorted(range(len(prompts)), key=lambda b: len(prompts[b]))
    size = max(1, work.micro_batch_tokens // (longest + work.length))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        width = max(len(prompts[b]) for b in part) + work.length
        ids_BT = torch.zeros(len(part), width, dtype=torch.int64)
        where_BT = torch.zeros(len(part), width, dtype=torch.bool)
        for row, b in enumerate(part):
            n = len(prompts[b])
            ids_BT[row, : n + work.length] = torch.cat([torch.tensor(prompts[b]), said[b]])
            where_BT[row, n - 1 : n + work.length - 1] = True
        hidden = model.model(input_ids=ids_BT).last_hidden_state[where_BT]
        logp = torch.log_softmax(model.lm_head(hidden), -1).gather(1, said[part].flatten()[:, None])[:, 0]
        ratio = torch.exp(logp - logp.detach())
        loss = -(ratio * adv[part].repeat_interleave(work.length)).sum() / work.trained_tokens
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return time.process_time() - start


def trl(work: Work, folder: Path) -> float:
    """A step of TRL's trainer; its CPU seconds, from the beginning of the step to its end."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    seconds: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            seconds.append(-time.process_time())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds[-1] += time.process_time()

    args = GRPOConfig(
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
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
        reward_funcs=lambda completions, **_: [float(hash(text) % 2) for text in completions],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [" ".join(f"w{i}" for i in ids) for ids in work.prompt_ids()]}),
        callbacks=[Clock()],
    )
    trainer.train()
    return seconds[0]


@dataclass(frozen=True)
class LogpWork:
    """The size of the log-probability comparison."""

    tokens: int = 1_024
    hidden: int = 896
    vocabulary: int = 151_936


def logp(kind: str, work: LogpWork, repeats: int = 3) -> dict[str, float]:
    """Forward and backward of log-probabilities, `full` logits or `chunked`: least CPU seconds, memory above before."""
    import torch

    from algos.head import token_logps

    torch.manual_seed(0)
    weight = torch.randn(work.vocabulary, work.hidden) * 0.02
    token = torch.randint(0, work.vocabulary, (work.tokens,))
    upstream = torch.randn(work.tokens)
    hidden = torch.randn(work.tokens, work.hidden, requires_grad=True)

    def once() -> None:
        if kind == "full":
            logps = torch.log_softmax(hidden @ weight.T, -1).gather(1, token[:, None])[:, 0]
        else:
            logps, _ = token_logps(hidden, weight, None, token)
        logps.backward(upstream)

    (torch.randn(64, 64) @ torch.randn(64, 64)).sum()
    before, seconds = _forget_peak(), []
    for _ in range(repeats):
        start = time.process_time()
        once()
        seconds.append(time.process_time() - start)
    return {"seconds": min(seconds), "memory": _peak() - before}


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


def _peak() -> float:
    """The peak of this process's resident set, so far or since it was forgotten [bytes]."""
    status = Path("/proc/self/status")
    if status.exists():
        told = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return float(told["VmHWM"].split()[0]) * 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # bytes on macOS


def _forget_peak() -> float:
    """Make the present resident set the peak, where Linux allows it; returns it [bytes]."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


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
    steps: Mapping[str, Callable[[Work, Path], float]] = {"ours": ours, "minimal": minimal, "trl": trl}
    return {"seconds": steps[contender](work, folder), "memory": _peak()}


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
        for contender in CONTENDERS[: 2 if args.without_trl else 3]:
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
