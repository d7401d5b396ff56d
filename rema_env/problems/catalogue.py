"""Known sets: where they are published, at which revision, under which licence, and which column holds what.

`rema_env.problems.named.load` reads them by name. Revisions are fixed where one is known; the sets without one are read
as they are today, and `name@revision` fixes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rema_env.grading.boxed import find_answer


def as_it_is(cell: Any) -> Any:
    """The cell."""
    return cell


def after_hashes(cell: Any) -> Any:
    """What stands behind the last `####`, thousands commas removed, as GSM8K writes answers."""
    return cell.rpartition("####")[2].strip().replace(",", "") if isinstance(cell, str) else cell


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
        hub: its name on the hub, or the address of a file.
        revision: the revision it is read at; None where none is fixed, so that the newest is taken.
        split: on the hub.
        configs: the hub's parts that make it up, each read in turn.
        question, answer: its columns.
        gold: the golden answer from the answer column's text.
        kind: problems, or pairs of answers to be judged.
        rows: how many there are.
        licence: as its source states it.
        note: what it shares with other sets, and what else one should know.
        instead: what can be used where it is gone or gated.
    """

    hub: str
    split: str
    rows: int
    licence: str
    revision: str | None = None
    configs: tuple[str, ...] = ()
    question: str = "question"
    answer: str = "answer"
    gold: Callable[[Any], Any] = as_it_is
    kind: Literal["problems", "pairs"] = "problems"
    note: str = ""
    instead: str = ""


_MATH_SUBJECTS = (
    "algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
    "precalculus",
)  # fmt: skip
_OWN_FILE = "download the set and give its parquet, jsonl or csv file by its path"

CATALOGUE: dict[str, Known] = {
    "math_train": Known(
        "EleutherAI/hendrycks_math", "train", 7_500, "MIT", "21a5633873b6a120296cce3e2df9d5550074f4a3", _MATH_SUBJECTS,
        question="problem", answer="solution", gold=last_box, instead="math_train_lv3to5",
    ),
    "math_train_lv3to5": Known(
        "https://github.com/ziyuwan/ReMA-public/raw/24b5b47/data/MATH/train_lv3to5_8k.parquet", "train", 8_523,
        "Apache-2.0 (ReMA), MIT (MATH)", answer="groundtruth", instead="math_train",
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
        "HuggingFaceH4/aime_2024", "train", 30, "Apache-2.0; the problems are the MAA's",
        "2fe88a2f1091d5048c0f36abc874fb997b3dd99a", question="problem", instead="aime25",
        note="its one split is called train; all of it is for evaluation",
    ),
    "aime25": Known(
        "math-ai/aime25", "test", 30, "Apache-2.0; the problems are the MAA's",
        "563bb8404243c5f09de6ec262f2db674fe5bce9b", question="problem", instead="aime24",
    ),
    "amc23": Known(
        "math-ai/amc23", "test", 40, "Apache-2.0; the problems are the MAA's",
        "80815d37005feb82cd7f8fbc6901d5d3eff43057", instead="aime24",
    ),
    "gaokao2023en": Known(
        "https://github.com/QwenLM/Qwen2.5-Math/raw/a45202b/evaluation/data/gaokao2023en/test.jsonl", "train", 385,
        "MIT", instead="math500",
    ),
    "minerva_math": Known(
        "math-ai/minervamath", "test", 272, "MIT; the problems are from MIT OpenCourseWare",
        instead="olympiadbench_math",
    ),
    "olympiadbench_math": Known(
        "math-ai/olympiadbench", "test", 674, "Apache-2.0", "4faaf1e6ec17d11a4218a9bf4c049ecaf954dd84",
        answer="final_answer", gold=joined, instead="math500",
    ),
    "rewardbench": Known(
        "allenai/reward-bench", "filtered", 2_985, "ODC-BY", kind="pairs", instead="judgebench",
        note="the chosen answer is always the better one: judge it in both orders",
    ),
    "judgebench": Known(
        "https://github.com/ScalerLab/JudgeBench/raw/12a499c5c29f06940d259b49250fca627d2a0ee5/data/"
        "dataset=judgebench,response_model=gpt-4o-2024-05-13.jsonl", "train", 350, "none stated", kind="pairs",
        instead="rewardbench",
    ),
}  # fmt: skip
