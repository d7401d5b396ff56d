"""Whether two answers are the same answer: structure against structure, quantity against quantity.

Verdicts have three values: True, False, and None where the judge of quantities could not tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rema_env.grading.answer import (
    Answer,
    Based,
    Bracket,
    Dots,
    Listing,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Reals,
    Relation,
    Residue,
    Union,
    is_asked,
)
from rema_env.grading.expression import Call, Number
from rema_env.grading.forms import (
    are_numbered,
    asked_and_values,
    bare_label,
    coordinates,
    delimiters_of,
    difference,
    expanded,
    has_label,
    is_circular,
    is_computation,
    is_congruent,
    is_near,
    is_set,
    items_of,
    label_and_values,
    label_kind,
    names_and_values,
    read_backwards,
    residue_value,
    unnamed,
    variables_of,
)
from rema_env.grading.matching import match_in_any_order, match_in_order, without_repetition
from rema_env.grading.quantities import same_quantity
from rema_env.grading.reals import is_set_notation, real_set, same_intervals
from rema_env.grading.verdict import Judge, Verdict, all_of, any_of


def same_answer(gold: Answer, said: Answer, judge: Judge) -> Verdict:
    """Whether `said` is the answer `gold`. Not symmetric: the form is the gold's to choose."""
    return _Comparison(judge).same(gold, said)


class _Comparison:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def same(self, gold: Answer, said: Answer) -> Verdict:
        gold, said = expanded(gold), expanded(said)
        if gold == said:
            return True
        if isinstance(gold, Named) or isinstance(said, Named):
            return self.same_curve(unnamed(gold), unnamed(said))
        if is_set_notation(gold) or is_set_notation(said):
            return self.same_set(gold, said)
        if isinstance(gold, Relation) or isinstance(said, Relation):
            return self.same_relation(gold, said)
        if isinstance(gold, Listing) or isinstance(said, Listing) or is_set(gold) or is_set(said):
            return self.same_items(gold, said)
        return self.same_kind(gold, said)

    def same_kind(self, gold: Answer, said: Answer) -> Verdict:
        """One thing against one thing."""
        if isinstance(gold, Quantity) and isinstance(said, Quantity):
            return same_quantity(gold, said, self.judge)
        if isinstance(gold, Bracket) and isinstance(said, Bracket):
            alike = delimiters_of(gold) == delimiters_of(said)
            return alike and self.in_order(gold.items, said.items)
        if isinstance(gold, Matrix) and isinstance(said, Matrix):
            shapes = [[len(row) for row in matrix.rows] for matrix in (gold, said)]
            return shapes[0] == shapes[1] and self.in_order(sum(gold.rows, ()), sum(said.rows, ()))
        if isinstance(gold, Matrix | Bracket) and isinstance(said, Matrix | Bracket):
            return (
                self.in_order(coordinates(gold), coordinates(said))
                if coordinates(gold) and coordinates(said)
                else False
            )
        if isinstance(gold, Ratio) or isinstance(said, Ratio):
            return self.same_ratio(gold, said)
        if isinstance(gold, Residue) or isinstance(said, Residue):
            return self.same_residue(gold, said)
        if isinstance(gold, Based) or isinstance(said, Based):
            return self.same_numeral(gold, said)
        return isinstance(gold, Dots) and isinstance(said, Dots)

    # Several items

    def in_order(self, gold: Sequence[Answer], said: Sequence[Answer]) -> Verdict:
        return match_in_order(gold, said, self.same)

    def in_any_order(self, gold: Sequence[Answer], said: Sequence[Answer]) -> Verdict:
        return match_in_any_order(gold, said, self.same)

    def same_items(self, gold: Answer, said: Answer) -> Verdict:
        """Lists and sets: in any order, a set without repetitions; names of values must agree where both have some."""
        if any(isinstance(side, Bracket) and not is_set(side) for side in (gold, said)) and not (
            isinstance(gold, Listing) and isinstance(said, Listing)
        ):
            return self.named_point(gold, said)
        gold_items, said_items = items_of(gold), items_of(said)
        if not all(any(isinstance(item, Named) for item in side) for side in (gold_items, said_items)):
            gold_items, said_items = tuple(map(unnamed, gold_items)), tuple(map(unnamed, said_items))
        if any(isinstance(item, Dots) for item in (*gold_items, *said_items)):
            return self.in_order(gold_items, said_items)
        if is_set(gold) or is_set(said):
            gold_items, said_items = (
                without_repetition(gold_items, self.same),
                without_repetition(said_items, self.same),
            )
        gold_names, gold_values = names_and_values(gold_items)
        said_names, said_values = names_and_values(said_items)
        if len(gold_items) != len(said_items):
            return False
        if len(set(gold_names)) > 1 and len(set(said_names)) > 1:
            return self.same_assignments(gold_names, gold_values, said_names, said_values)
        if all(isinstance(item, Relation) for item in (*gold_items, *said_items)) and not (gold_names and said_names):
            return self.in_any_order(gold_items, said_items)
        if gold_names and said_names and set(gold_names) != set(said_names):
            return False
        if any(len(set(names)) > 1 and not are_numbered(names) for names in (gold_names, said_names)):
            return self.in_order(gold_values, said_values)
        return self.in_any_order(gold_values, said_values)

    def same_assignments(
        self, gold_names: list[Answer], gold: Sequence[Answer], said_names: list[Answer], said: Sequence[Answer]
    ) -> Verdict:
        """x = 3, y = 4: every name has the gold's value."""
        if len(set(gold_names)) < len(gold_names) or set(gold_names) != set(said_names):
            return False
        by_name = dict(zip(said_names, said, strict=True))
        return all_of(self.same(answer, by_name[name]) for name, answer in zip(gold_names, gold, strict=True))

    def named_point(self, gold: Answer, said: Answer) -> Verdict:
        """A point against its coordinates by name: (3, 4) and x = 3, y = 4."""
        point, other = (gold, said) if isinstance(gold, Bracket) else (said, gold)
        if not isinstance(point, Bracket) or not isinstance(other, Listing) or point.opener + point.closer != "()":
            return False
        names, values = names_and_values(other.items)
        if len(set(names)) != len(other.items):
            return False
        return self.in_order(point.items, values) if point is gold else self.in_order(values, point.items)

    # Relations and sets of reals

    def same_relation(self, gold: Answer, said: Answer) -> Verdict:
        """Equations. `x = 5` is 5; an equation is any multiple of itself; a chain must hold all the way."""
        if isinstance(gold, Relation) and isinstance(said, Relation):
            return self.same_equation(gold, said)
        if isinstance(gold, Relation):
            _, values = label_and_values(gold)
            usable = has_label(gold) or "~" in gold.signs or is_computation(gold)
            return any_of(self.same(answer, said) for answer in values) if usable else False
        assert isinstance(said, Relation)
        return self.chain(gold, said)

    def chain(self, gold: Answer, said: Relation) -> Verdict:
        """`x = 2 + 3 = 5` for 5: the name aside, every part is the gold, and no two parts are the same words."""
        values = asked_and_values(said) if isinstance(gold, Quantity | Matrix) else label_and_values(said)[1]
        if "~" in said.signs:
            return self.approximation(gold, said, values)
        if len(set(said.parts)) < len(said.parts) or is_circular(said):
            return False
        given = [answer for answer in values[:-1] if not is_asked(answer)]  # k = \tan A = 2 names it twice
        return all_of(self.same(gold, answer) for answer in (*given, *values[-1:])) if values else False

    def approximation(self, gold: Answer, said: Relation, values: Sequence[Answer]) -> Verdict:
        r"""`\sqrt{2} \approx 1.414`: what stands before the sign counts, where the rest is near it."""
        exact_part, *rest = values
        near = all(is_near(exact_part, other) for other in rest)
        return self.same(gold, exact_part) if near and said.signs[-1] == "~" else False

    def same_curve(self, gold: Answer, said: Answer) -> Verdict:
        """By their equations: `l: x = 5` is a line, and no way to say 5."""
        return isinstance(gold, Relation) and isinstance(said, Relation) and self.same_equation(gold, said)

    def same_equation(self, gold: Relation, said: Relation) -> Verdict:
        if "~" in (*gold.signs, *said.signs):
            values = label_and_values(gold)[1]
            return any_of(self.same(answer, said) for answer in values)
        verdicts: list[Verdict] = []
        gold_label, gold_values = label_and_values(gold)
        said_label, said_values = label_and_values(said)
        if gold_label is not None and said_label is not None and self.same_label(gold_label, said_label):
            verdicts.append(all_of(any_of(self.same(a, b) for a in gold_values) for b in said_values))
        if len(gold.parts) == 2 and len(said.parts) == 2:
            sign = self.multiple(gold, said)
            verdicts.append(None if sign is None else sign != 0)
        return any_of(verdicts)

    def same_label(self, gold: Answer, said: Answer) -> bool:
        """The same name; `y` and `f(x)` name the same thing, and so do words."""
        return bare_label(gold) == bare_label(said) or {label_kind(gold), label_kind(said)} <= {
            "value of a function",
            "words",
        }

    def multiple(self, gold: Relation, said: Relation) -> int | None:
        """The sign of c in (left - right of said) = c (left - right of gold); 0 where there is none."""
        sides = [difference(gold), difference(said)]
        if sides[0] is None or sides[1] is None:
            return 0
        return self.judge.proportional(sides[0], sides[1])

    def same_set(self, gold: Answer, said: Answer) -> Verdict:
        """Sets of reals in any notation; else inequalities that are multiples of each other, unions part by part."""
        gold_set, said_set = real_set(gold), real_set(said)
        if gold_set is not None and said_set is not None:
            if self.clashing_names(gold, said):
                return False
            return same_intervals(gold_set, said_set, self.judge)
        if isinstance(gold, Relation) and isinstance(said, Relation):
            return self.same_inequality(gold, said)
        if isinstance(gold, Union) and isinstance(said, Union):
            return self.in_any_order(gold.parts, said.parts)
        if isinstance(gold, Listing) and isinstance(said, Listing):
            return self.in_any_order(gold.items, said.items)
        return isinstance(gold, Reals) and isinstance(said, Reals)

    def clashing_names(self, gold: Answer, said: Answer) -> bool:
        """Whether both are about a named variable, and not the same one: x > 3 and y > 3."""
        names = [variables_of(side) for side in (gold, said)]
        return bool(names[0] and names[1] and names[0] != names[1])

    def same_inequality(self, gold: Relation, said: Relation) -> Verdict:
        """Part by part, also read backwards; or two sides each, one a multiple of the other."""
        verdicts: list[Verdict] = []
        for parts, signs in ((said.parts, said.signs), read_backwards(said)):
            if signs == gold.signs:
                verdicts.append(self.in_order(gold.parts, parts))
            if signs == gold.signs and len(signs) == 1 and signs[0] not in ("in", "~"):
                sign = self.multiple(gold, Relation(tuple(parts), signs))
                verdicts.append(None if sign is None else sign > 0 or (signs[0] == "!=" and sign < 0))
        return any_of(verdicts)

    # Rarer kinds

    def same_ratio(self, gold: Answer, said: Answer) -> Verdict:
        """Term by term: 6:8 is another ratio on a clock; a fraction of the same two numbers is the same."""
        if isinstance(gold, Ratio) and isinstance(said, Ratio):
            return self.in_order(gold.items, said.items)
        ratio, other = (gold, said) if isinstance(gold, Ratio) else (said, gold)
        if not isinstance(ratio, Ratio) or not isinstance(other, Quantity) or len(ratio.items) != 2:
            return False
        over, under = ratio.items
        if not isinstance(over, Quantity) or not isinstance(under, Quantity) or over.expr is None or under.expr is None:
            return False
        return other.expr == Call("div", (over.expr, under.expr))

    def same_residue(self, gold: Answer, said: Answer) -> Verdict:
        """Equal modulo the modulus where both name it, else equal as they stand."""
        if not isinstance(gold, Residue) or not isinstance(said, Residue):
            return self.same(gold.value if isinstance(gold, Residue) else gold, residue_value(said))
        modulus = self.same(gold.modulus, said.modulus)
        if modulus is not True:
            return modulus
        return any_of([self.same(gold.value, said.value), is_congruent(gold, said)])

    def same_numeral(self, gold: Answer, said: Answer) -> Verdict:
        """The digits in the base asked for; a base left out is the gold's, and a gold without a base is a value."""
        if isinstance(gold, Based):
            written = re.sub(r"\\text|[{}\s()]", "", said.source).upper() if isinstance(said, Quantity) else ""
            return written in (gold.digits, f"{gold.digits}_{gold.base}")
        if not isinstance(said, Based) or not isinstance(gold, Quantity) or gold.expr is None:
            return False
        try:
            return self.judge.same(gold.expr, Number(Fraction(int(said.digits, said.base))))
        except ValueError:
            return False
