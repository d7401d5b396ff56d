"""What is played: groups of flags about the world, its agents, and how a step's episodes are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from algos.flag import JsonObject, at_least
from algos.schedule import rounds_at


@dataclass(frozen=True)
class EnvConfig:
    """The world: which environment, which problems, which rules."""

    env: str = "math_v0"
    """A built-in name, package.module:function, or a name of the entry-point group rema.envs."""
    env_kwargs: JsonObject = field(default_factory=dict)
    """Further arguments of the environment, as JSON, e.g. '{"actions": "json"}'."""
    process: str = "multi_turn"
    """Who speaks when: a process that the environment knows, e.g. multi_turn."""
    dataset_name: str | None = None
    """A parquet, JSON Lines or CSV file, a folder, a known set, or a hub name (owner/set@revision:split). None: the
    environment's own procedural problems."""
    streaming: bool = False
    """Read the data set while training draws from it, and hold a buffer of it; for sets too big to fetch."""
    question_column: str | None = None
    """The column of the question, where its name is not one of the usual ones."""
    answer_column: str | None = None
    """The column of the golden answer, where its name is not one of the usual ones."""
    system_prompts: str | None = None
    """A YAML file (role: text), or `embedded` for the embedded model's terse ones. None: the environment's own."""
    max_rounds: int | str = 30
    """The limit of rounds (one turn of each agent); or ROUNDS:STEP pairs that raise it, e.g. 1:0,4:100,30:200."""
    on_cut: Literal["end", "continue"] = "end"
    """Whether a message cut at the token limit ends the dialogue."""
    unfinished_reward: Literal["zero", "drop", "grade"] = "zero"
    """Dialogues that did not finish: no reward, left out of the loss, or graded all the same."""
    rewards: JsonObject = field(default_factory=dict)
    """Weights of reward terms, as JSON, e.g. '{"answer": 1, "meta/leak": -0.5}'. Empty: the environment's own."""
    grader: str | None = None
    """package.module:function, or a built-in grader's name. None: the environment's own."""

    def __post_init__(self) -> None:
        at_least("max_rounds", rounds_at(self.max_rounds, 1), 1)


@dataclass(frozen=True)
class ModelConfig:
    """The agents: whose weights, shared or separate, and who learns."""

    model_name_or_path: str | None = None
    """A model folder, a checkpoint, a run folder, or a hub name. None: the preset `embedded`."""
    team: Literal["shared", "separate"] = "shared"
    """One set of weights for all roles, or one for each."""
    train: str = "all"
    """all; the roles that learn, separated by commas; or alternate:N, one role at a time for N steps each."""
    first: str | None = None
    """With alternate: the role that learns first. None: the environment's first."""
    sampler: Literal["auto", "hf", "vllm", "remote"] = "auto"
    """auto: vllm with a GPU where it is installed, else hf. remote: the model on --server."""
    server: str | None = None
    """An OpenAI-compatible server, http://HOST:PORT/v1; or ROLE=URL,...: these roles play there, whatever --sampler."""
    vllm_gpu_memory_utilization: float = 0.5
    """The share of a GPU's memory for vLLM's weights and cache; the learner needs the rest."""
    vllm_tensor_parallel_size: int = 1
    """GPUs that one vLLM engine is spread over, in a run of one rank."""
    vllm_weight_transfer: Literal["auto", "ipc", "files"] = "auto"
    """ipc: through a buffer that learner and vLLM share on one GPU. files: in shared memory. auto: ipc on one GPU."""
    chat_template_kwargs: JsonObject = field(default_factory=dict)
    """Passed to the chat template, as JSON, e.g. '{"enable_thinking": false}'."""
    lora_rank: int = 0
    """Train adapters of this rank (LoRA) on one frozen base that all policies share; 0: all weights."""
    lora_alpha: int = 32
    """LoRA's scale: what an adapter adds is multiplied by alpha / rank."""
    share_thinking: bool = False
    """Leave a message's reasoning block in it, for the partner to see and for flag and answer to be searched in."""
    bf16: bool | None = None
    """Compute in bfloat16 over float32 master weights. None: on GPUs yes, on a CPU no."""

    def __post_init__(self) -> None:
        at_least("lora_rank", self.lora_rank, 0)
        for name in ("lora_alpha", "vllm_tensor_parallel_size"):
            at_least(name, getattr(self, name), 1)
        if not 0 < self.vllm_gpu_memory_utilization <= 1:
            raise ValueError(
                f"--vllm-gpu-memory-utilization is a share above 0 and up to 1, got {self.vllm_gpu_memory_utilization}"
            )


@dataclass(frozen=True)
class LimitsConfig:
    """What a dialogue may cost."""

    max_completion_length: int = 512
    """The limit of tokens a message."""
    max_prompt_length: int = 4096
    """The limit of tokens of the rendered chat at a call; above it the dialogue ends as context_full."""
    max_concurrency: int = 512
    """How many dialogues are under way at once on a rank."""
    dialogue_timeout: float | None = None
    """Seconds until a dialogue is aborted (never trained on). None: no limit."""

    def __post_init__(self) -> None:
        for name in ("max_completion_length", "max_prompt_length", "max_concurrency"):
            at_least(name, getattr(self, name), 1)
        if self.dialogue_timeout is not None and not self.dialogue_timeout > 0:
            raise ValueError(f"--dialogue-timeout must be above 0, got {self.dialogue_timeout}")


@dataclass(frozen=True)
class SamplingConfig:
    """How a step's episodes are made."""

    problems_per_step: int = 128
    """Problems of one step, over all ranks."""
    num_generations: int = 8
    """Episodes of one problem: the group size."""
    group_rewards: JsonObject = field(default_factory=dict)
    """Weights of terms that look at a whole group, as JSON, e.g. '{"meta/majority_share": 0.5}'; added after play."""
    temperature: float = 1.0
    """Divides the logits, in sampling and in the learner alike."""
    top_p: float = 1.0
    """Must stay 1 in training: a cut distribution is not the one whose log-probabilities are trained."""
    top_k: int = 0
    """Must stay 0 in training, as top_p."""
    group_by: Literal["problem", "context"] = "problem"
    """Compare one agent's episodes of one problem, or only those that also answered the very same first prompt."""
    num_branches: int = 1
    """Continuations of every episode, itself included, from the turn at which it is branched; 1: no branching."""
    branch_turn: int = 1
    """Branches share so many first turns (1: the first plan); 0: a number drawn for each episode."""
    dynamic_sampling: bool = False
    """Leave out groups that teach nothing and draw further problems instead."""
    max_sampling_rounds: int = 4
    """With dynamic sampling: draw at most so many times the problems of a step."""
    phase_problems: int = 0
    """With --train alternate: a phase tries so many problems first and keeps to those within --success-rate; 0: off."""
    phase_samples: int = 10
    """Episodes of each problem that a phase tries, the partner greedy."""
    success_rate: str = "0:1"
    """With dynamic sampling or phases: keep problems whose mean grade lies within LOW:HIGH, e.g. 0.2:0.8."""
    overlong: Literal["keep", "mask", "penalise"] = "keep"
    """Trajectories with a message cut at the limit: learnt from, left out of the loss, or paid less."""
    overlong_buffer: int = 64
    """With penalise: a message pays for running into the last so many tokens of the limit, up to 1."""

    def __post_init__(self) -> None:
        for name in ("problems_per_step", "num_generations", "num_branches", "max_sampling_rounds", "overlong_buffer"):
            at_least(name, getattr(self, name), 1)
        for name, least in (("branch_turn", 0), ("phase_problems", 0), ("phase_samples", 1)):
            at_least(name, getattr(self, name), least)
        if not 0 <= self.bounds[0] <= self.bounds[1] <= 1:
            raise ValueError(f"--success-rate {self.success_rate}: LOW:HIGH must be between 0 and 1, e.g. 0.2:0.8")
        if not 0 < self.temperature < math.inf or self.top_p != 1 or self.top_k != 0:
            raise ValueError(
                "training needs --temperature above 0, --top-p 1 and --top-k 0: sampling from a cut or greedy "
                "distribution would not be the policy whose log-probabilities are trained, got "
                f"temperature {self.temperature}, top_p {self.top_p}, top_k {self.top_k}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """What `success_rate` says. Raises ValueError where it cannot be read."""
        low, _, high = self.success_rate.partition(":")
        try:
            return float(low), float(high)
        except ValueError:
            raise ValueError(f"--success-rate {self.success_rate} is not LOW:HIGH, e.g. 0.2:0.8") from None
