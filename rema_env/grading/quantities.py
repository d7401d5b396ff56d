"""One quantity against another: units, percent signs, infinities, and the values themselves."""

from __future__ import annotations

from fractions import Fraction

from rema_env.grading.answer import Quantity, scaled
from rema_env.grading.expression import Call, Name
from rema_env.grading.forms import is_below_one, is_percent
from rema_env.grading.points import is_flat_in_parts, names
from rema_env.grading.unit_letters import without_unit
from rema_env.grading.verdict import Judge, Verdict, any_of

_PERCENT = Fraction(1, 100)


def same_quantity(gold: Quantity, said: Quantity, judge: Judge) -> Verdict:
    """Equal in value. A unit, a percent sign or a label on one side alone changes nothing; two units must agree."""
    said = _as_measured(gold, said)
    if gold.unit and said.unit and gold.unit.dimension and said.unit.dimension:
        if (gold.unit.dimension, gold.unit.power) != (said.unit.dimension, said.unit.power):
            return False
        return _same_values(scaled(gold, gold.unit.factor), scaled(said, said.unit.factor), judge)
    if is_percent(said) and not gold.unit and is_below_one(gold):
        return _same_values(gold, scaled(said, _PERCENT), judge)
    plain = _same_values(gold, said, judge)
    if plain is not True and is_percent(gold) and not said.unit:
        return any_of([plain, _same_values(scaled(gold, _PERCENT), said, judge)])
    if plain is not True and is_percent(said) and not gold.unit:
        return any_of([plain, _same_values(gold, scaled(said, _PERCENT), judge)])
    return plain


def _as_measured(gold: Quantity, said: Quantity) -> Quantity:
    """What was said, letters behind its value read as a unit where the gold is a value without letters: `12 m^2`."""
    if said.unit or said.expr is None or gold.expr is None or names(gold.expr):
        return said
    bare = without_unit(said.expr, asked=bool(gold.unit and gold.unit.dimension))
    return Quantity(bare[0], said.source, bare[1]) if bare else said


def _same_values(gold: Quantity, said: Quantity, judge: Judge) -> Verdict:
    if gold.expr is None:
        return gold.source == said.source or judge.foreign(gold.source, said.source)
    if said.expr is None:
        return False  # an integral left standing is no answer to a question that asks for its value
    for infinite, other in ((gold.expr, said.expr), (said.expr, gold.expr)):
        if infinite in (Name("infty"), Call("neg", (Name("infty"),))):
            return infinite == other
    if not names(gold.expr) and is_flat_in_parts(said.expr):
        return False  # max(7, x) is 7 for some x alone
    return gold.expr == said.expr or judge.same(gold.expr, said.expr)
