"""Known sets: where they are published, at which revision, under which licence, and which column holds what.

`rema_env.problems.named.load` reads them by name, at the revision that stands here or at that of `name@revision`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rema_env.grading.boxed import find_answer

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def as_it_is(cell: Any) -> Any:
    """The cell."""
    return cell


def after_hashes(cell: Any) -> Any:
    """What stands behind the last `####`, thousands commas removed, as GSM8K writes answers."""
    return _THOUSANDS.sub("", cell.rpartition("####")[2].strip()) if isinstance(cell, str) else cell


def last_box(cell: Any) -> Any:
    """The content of the last box of a worked solution, as MATH writes answers."""
    return find_answer(cell) or "" if isinstance(cell, str) else cell


def joined(cell: Any) -> Any:
    """A list of answers as one, `$` signs removed, as OlympiadBench writes them."""
    return ", ".join(part.replace("$", "") for part in cell) if isinstance(cell, (list, tuple)) else cell


@dataclass(frozen=True)
class Known:
    """One published set.

    Attributes:
        hub: its name on the hub, or the address of a file in which `{revision}` stands for the revision.
        split: on the hub; `a+b` is both.
        rows: how many there are.
        licence: as its source states it.
        revision: the commit it is read at.
        configs: the hub's parts that make it up, each read in turn.
        question, answer: its columns.
        gold: the golden answer from the answer column's text.
        kind: problems, or pairs of answers to be judged.
        note: what it shares with other sets, and what else one should know.
        instead: what can be used where it is gone or gated.
    """

    hub: str
    split: str
    rows: int
    licence: str
    revision: str
    configs: tuple[str, ...] = ()
    question: str = "question"
    answer: str = "answer"
    gold: Callable[[Any], Any] = as_it_is
    kind: Literal["problems", "pairs"] = "problems"
    note: str = ""
    instead: str = ""

    @property
    def pinned(self) -> bool:
        """Whether the revision is a whole commit, which never comes to mean another state of the set."""
        return re.fullmatch("[0-9a-f]{40}", self.revision) is not None

    @property
    def published(self) -> str:
        """Where it is published, with the revision: `owner/set@revision`, or the file's address."""
        return self.address(self.revision) if "{revision}" in self.hub else f"{self.hub}@{self.revision}"

    def address(self, revision: str) -> str:
        """What is read: the name on the hub, or the file's address at a revision."""
        return self.hub.replace("{revision}", revision)


_MATH_SUBJECTS = (
    "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
    "precalculus",
)  # fmt: skip
_OWN_FILE = "a copy of your own (parquet, jsonl or csv) by its path"

CATALOGUE: dict[str, Known] = {
    "math_train": Known(
        "EleutherAI/hendrycks_math", "train", 7_500, "MIT", "21a5633873b6a120296cce3e2df9d5550074f4a3", _MATH_SUBJECTS,
        question="problem", answer="solution", gold=last_box, instead="math_train_lv3to5",
    ),
    "math_train_lv3to5": Known(
        "https://github.com/ziyuwan/ReMA-public/raw/{revision}/data/MATH/train_lv3to5_8k.parquet", "train", 8_523,
        "Apache-2.0 (ReMA), MIT (MATH)", "24b5b47", answer="groundtruth", instead="math_train",
        note="2,936 of its problems are from the MATH test set, none of them in math500: evaluate on math500",
    ),
    "math500": Known(
        "HuggingFaceH4/MATH-500", "test", 500, "MIT", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", question="problem",
        instead="gsm8k_test",
    ),
    "gsm8k_train": Known(
        "openai/gsm8k", "train", 7_473, "MIT", "740312add88f781978c0658806c59bc2815b9866", ("main",), gold=after_hashes,
        instead=_OWN_FILE,
    ),
    "gsm8k_test": Known(
        "openai/gsm8k", "test", 1_319, "MIT", "740312add88f781978c0658806c59bc2815b9866", ("main",), gold=after_hashes,
        instead=_OWN_FILE,
    ),
    "aime24": Known(
        "HuggingFaceH4/aime_2024", "train", 30, "none stated; the problems are the MAA's",
        "2fe88a2f1091d5048c0f36abc874fb997b3dd99a", question="problem", instead="aime25",
        note="its one split is called train; all of it is for evaluation",
    ),
    "aime25": Known(
        "math-ai/aime25", "test", 30, "Apache-2.0; the problems are the MAA's",
        "563bb8404243c5f09de6ec262f2db674fe5bce9b", question="problem", instead="aime24",
    ),
    "amc23": Known(
        "math-ai/amc23", "test", 40, "none stated; the problems are the MAA's",
        "80815d37005feb82cd7f8fbc6901d5d3eff43057", instead="aime24",
    ),
    "gaokao2023en": Known(
        "https://github.com/QwenLM/Qwen2.5-Math/raw/{revision}/evaluation/data/gaokao2023en/test.jsonl", "train", 385,
        "MIT", "a45202bd16f1ec06f433442dc1152d0074773465", instead="math500",
    ),
    "minerva_math": Known(
        "math-ai/minervamath", "test", 272, "none stated; the problems are from MIT OpenCourseWare",
        "ee46ddc498933b1977577953250ca5c66be64f96", instead="olympiadbench_math",
    ),
    "olympiadbench_math": Known(
        "math-ai/olympiadbench", "test", 674, "none stated; OlympiadBench is Apache-2.0",
        "4faaf1e6ec17d11a4218a9bf4c049ecaf954dd84", answer="final_answer", gold=joined, instead="math500",
    ),
    "rewardbench": Known(
        "allenai/reward-bench", "filtered", 2_985, "ODC-BY", "168d848cdbbea9764fae4a544dc9ca1e6cca4931", kind="pairs",
        instead="judgebench", note="the chosen answer is always the better one: judge it in both orders",
    ),
    "judgebench": Known(
        "ScalerLab/JudgeBench", "gpt+claude", 620, "MIT", "57dd5e0b9817d07f05ec8f45a91b2ce1e310e308", kind="pairs",
        instead="rewardbench", note="350 pairs of answers by GPT-4o, then 270 by Claude 3.5 Sonnet",
    ),
}  # fmt: skip
