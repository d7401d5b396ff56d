"""Cross-play: every pairing of the first agent with the others, before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from algos.metrics import accuracy
from algos.team import Team
from rema_agents.gate import Gate
from rema_agents.types import Seat
from rema_env.transcript import Message, Problem

if TYPE_CHECKING:
    from algos.evaluate import Evaluation, SeatsFor


@dataclass(frozen=True)
class AnotherProblem:
    """A seat that sees another problem's question instead of the dialogue's own; it answers that one.

    Attributes:
        seat: who speaks.
        question, other: replaced, and by what.
    """

    seat: Seat
    question: str
    other: str

    @property
    def calls(self) -> Any:
        """The seat's calls."""
        return getattr(self.seat, "calls", ())

    async def say(self, observation: Mapping[str, Any], *, gate: Gate) -> Message | str:
        """What the seat says about the other problem."""
        messages = tuple(
            {**m, "content": m["content"].replace(self.question, self.other)} for m in observation["messages"]
        )
        return await self.seat.say({**observation, "messages": messages}, gate=gate)


def check_cross_play(agents: Sequence[str], sets: Mapping[str, Sequence[Problem]]) -> None:
    """Raise ValueError where there is nobody to pair, or no other problem whose plan could be given."""
    if len(agents) < 2:
        raise ValueError(f"--cross-play pairs agents with one another, and {agents[0]} plays alone")
    if few := [name for name, problems in sets.items() if len(problems) < 2]:
        raise ValueError(f"--cross-play gives the plan for another problem too, and {few[0]} has only one problem")


def cross_play(
    before: Team, after: Team, evaluation: Evaluation, problems: Sequence[Problem]
) -> dict[str, dict[str, float]]:
    """Accuracy of every pairing of the first agent (the planner) with the others, before and after training.

    Returns:
        planner -> reasoner -> accuracy. Planners: `before`, `after`, and `after, another problem's plan`, who thinks
        about the next problem of the set while the reasoner faces its own.
    """
    planner, *others = list(after)
    temperature = evaluation.settings.eval_temperature
    seats = {"before": evaluation.seats(before, temperature), "after": evaluation.seats(after, temperature)}

    def pair(plan: SeatsFor, solve: SeatsFor) -> SeatsFor:
        return lambda dialogue: {planner: plan(dialogue)[planner]} | {a: solve(dialogue)[a] for a in others}

    def misled(dialogue: int) -> Mapping[str, Seat]:
        question, other = problems[dialogue].question, problems[(dialogue + 1) % len(problems)].question
        return {planner: AnotherProblem(seats["after"](dialogue)[planner], question, other)}

    planners: dict[str, SeatsFor] = {**seats, "after, another problem's plan": misled}
    return {
        plan_name: {
            solve_name: accuracy(evaluation.play(pair(plan, solve), problems)) for solve_name, solve in seats.items()
        }
        for plan_name, plan in planners.items()
    }


def cross_play_table(name: str, table: Mapping[str, Mapping[str, float]]) -> Table:
    """The cross-play as a table to print."""
    columns = list(next(iter(table.values())))
    out = Table("planner", *(f"reasoner {column}" for column in columns), title=f"cross-play on {name}: accuracy")
    for planner, row in table.items():
        out.add_row(planner, *(f"{row[column]:.3f}" for column in columns))
    return out
