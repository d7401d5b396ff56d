"""Whether two answers are the same answer: structure against structure, quantity against quantity.

Three values: True, False, and None where the judge of quantities could not tell (`all_of` and `any_of` carry it through).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Protocol

from rema_env.grading.answer import (
    Answer,
    Based,
    Bracket,
    Dots,
    Listing,
    Matrix,
    Quantity,
    Ratio,
    Reals,
    Relation,
    Residue,
    Union,
    alternatives,
    is_label,
    scaled,
)
from rema_env.grading.exact import Inexact, exact
from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.reals import Interval, is_set_notation, real_set

Verdict = bool | None
_MOST_ITEMS = 64


class Judge(Protocol):
    """Compares expressions; None where it cannot tell."""

    def same(self, gold: Expr, said: Expr) -> Verdict:
        """Equal as numbers or functions."""
        ...

    def proportional(self, gold: Expr, said: Expr) -> int | None:
        """The sign of c in said = c * gold for a constant c; 0 where there is none."""
        ...

    def foreign(self, gold: str, said: str) -> Verdict:
        """Equal, where only math-verify reads the notation."""
        ...


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """False if any is, else None if any is, else True."""
    result: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        result = None if verdict is None else result
    return result


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True if any is, else None if any is, else False."""
    result: Verdict = False
    for verdict in verdicts:
        if verdict:
            return True
        result = None if verdict is None else result
    return result


def same_answer(gold: Answer, said: Answer, judge: Judge) -> Verdict:
    """Whether `said` is the answer `gold`. Not symmetric: the form is the gold's to choose."""
    return _Comparison(judge).same(gold, said)


class _Comparison:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def same(self, gold: Answer, said: Answer) -> Verdict:
        gold, said = _expanded(gold), _expanded(said)
        if gold == said and not isinstance(said, Relation):
            return True
        if is_set_notation(gold) or is_set_notation(said):
            return self.same_set(gold, said)
        if isinstance(gold, Relation) or isinstance(said, Relation):
            return self.same_relation(gold, said)
        if isinstance(gold, Listing) or isinstance(said, Listing) or _is_set(gold) or _is_set(said):
            return self.same_items(gold, said)
        return self.same_kind(gold, said)

    def same_kind(self, gold: Answer, said: Answer) -> Verdict:
        """One thing against one thing."""
        if isinstance(gold, Quantity) and isinstance(said, Quantity):
            return self.same_quantity(gold, said)
        if isinstance(gold, Bracket) and isinstance(said, Bracket):
            alike = _delimiters(gold) == _delimiters(said)
            return alike and self.in_order(gold.items, said.items)
        if isinstance(gold, Matrix) and isinstance(said, Matrix):
            shapes = [[len(row) for row in matrix.rows] for matrix in (gold, said)]
            return shapes[0] == shapes[1] and self.in_order(sum(gold.rows, ()), sum(said.rows, ()))
        if isinstance(gold, Matrix | Bracket) and isinstance(said, Matrix | Bracket):
            return self.in_order(_column(gold), _column(said)) if _column(gold) and _column(said) else False
        if isinstance(gold, Ratio) or isinstance(said, Ratio):
            return self.same_ratio(gold, said)
        if isinstance(gold, Residue) or isinstance(said, Residue):
            return self.same_residue(gold, said)
        if isinstance(gold, Based) or isinstance(said, Based):
            return self.same_numeral(gold, said)
        return isinstance(gold, Dots) and isinstance(said, Dots)

    # One quantity

    def same_quantity(self, gold: Quantity, said: Quantity) -> Verdict:
        """Equal in value. A unit, a percent sign or a label on one side alone changes nothing; two units must agree."""
        if gold.unit and said.unit and gold.unit.dimension and said.unit.dimension:
            if (gold.unit.dimension, gold.unit.power) != (said.unit.dimension, said.unit.power):
                return False
            return self.same_values(scaled(gold, gold.unit.factor), scaled(said, said.unit.factor))
        plain = self.same_values(gold, said)
        percent = Fraction(1, 100)
        if plain is not True and _is_percent(gold) and not said.unit:
            return any_of([plain, self.same_values(scaled(gold, percent), said)])
        if plain is not True and _is_percent(said) and not gold.unit:
            return any_of([plain, self.same_values(gold, scaled(said, percent))])
        return plain

    def same_values(self, gold: Quantity, said: Quantity) -> Verdict:
        if gold.expr is None:
            return gold.source == said.source or self.judge.foreign(gold.source, said.source)
        if said.expr is None:
            return False  # an integral left standing is no answer to a question that asks for its value
        for infinite, other in ((gold.expr, said.expr), (said.expr, gold.expr)):
            if infinite in (Name("infty"), Call("neg", (Name("infty"),))):
                return infinite == other
        return gold.expr == said.expr or self.judge.same(gold.expr, said.expr)

    # Several items

    def in_order(self, gold: Sequence[Answer], said: Sequence[Answer]) -> Verdict:
        if len(gold) != len(said):
            return False
        return all_of(self.same(a, b) for a, b in zip(gold, said, strict=True))

    def in_any_order(self, gold: Sequence[Answer], said: Sequence[Answer]) -> Verdict:
        """Each item has a partner of its own on the other side."""
        if len(gold) != len(said) or len(gold) > _MOST_ITEMS:
            return False
        left, sure = list(said), True
        for item in gold:
            verdicts = [self.same(item, other) for other in left]
            at = next((k for k, verdict in enumerate(verdicts) if verdict), None)
            if at is None and None not in verdicts:
                return False
            sure = sure and at is not None
            left.pop(verdicts.index(None) if at is None else at)
        return True if sure else None

    def same_items(self, gold: Answer, said: Answer) -> Verdict:
        """Lists and sets: in any order, a set's repetitions dropped; names of values must agree where both have some."""
        if any(isinstance(side, Bracket) and not _is_set(side) for side in (gold, said)) and not (
            isinstance(gold, Listing) and isinstance(said, Listing)
        ):
            return self.named_point(gold, said)
        gold_items, said_items = _items(gold), _items(said)
        if any(isinstance(item, Dots) for item in (*gold_items, *said_items)):
            return self.in_order(gold_items, said_items)
        if _is_set(gold) or _is_set(said):
            gold_items, said_items = self.without_repetition(gold_items), self.without_repetition(said_items)
        gold_names, gold_values = _named(gold_items)
        said_names, said_values = _named(said_items)
        if len(gold_items) != len(said_items):
            return False
        if len(set(gold_names)) > 1 and len(set(said_names)) > 1:
            return self.same_assignments(gold_names, gold_values, said_names, said_values)
        if gold_names and said_names and set(gold_names) != set(said_names):
            return False
        if len(set(gold_names)) > 1 or len(set(said_names)) > 1:
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
        names, values = _named(other.items)
        if len(set(names)) != len(other.items):
            return False
        return self.in_order(point.items, values) if point is gold else self.in_order(values, point.items)

    def without_repetition(self, items: Sequence[Answer]) -> tuple[Answer, ...]:
        kept: list[Answer] = []
        for item in items[:_MOST_ITEMS]:
            if not any(self.same(other, item) for other in kept):
                kept.append(item)
        return tuple(kept) + tuple(items[_MOST_ITEMS:])

    # Relations and sets of reals

    def same_relation(self, gold: Answer, said: Answer) -> Verdict:
        """Equations. `x = 5` is 5; an equation is any multiple of itself; a chain must hold all the way."""
        if isinstance(gold, Relation) and isinstance(said, Relation):
            return self.same_equation(gold, said)
        if isinstance(gold, Relation):
            _, values = _label_and_values(gold)
            usable = _has_label(gold) or "~" in gold.signs
            return any_of(self.same(answer, said) for answer in values) if usable else False
        assert isinstance(said, Relation)
        return self.chain(gold, said)

    def chain(self, gold: Answer, said: Relation) -> Verdict:
        """`x = 2 + 3 = 5` for 5: the name aside, every part is the gold, and no two parts are the same words."""
        _, values = _label_and_values(said)
        if "~" in said.signs:
            return self.approximation(gold, said, values)
        if len(set(values)) < len(values):
            return False
        return all_of(self.same(gold, answer) for answer in values) if values else False

    def approximation(self, gold: Answer, said: Relation, values: Sequence[Answer]) -> Verdict:
        r"""`\sqrt{2} \approx 1.414`: what stands before the sign counts, where the rest is near it."""
        exact_part, *rest = values
        near = all(_near(exact_part, other) for other in rest)
        return self.same(gold, exact_part) if near and said.signs[-1] == "~" else False

    def same_equation(self, gold: Relation, said: Relation) -> Verdict:
        if "~" in (*gold.signs, *said.signs):
            values = _label_and_values(gold)[1]
            return any_of(self.same(answer, said) for answer in values)
        verdicts: list[Verdict] = []
        gold_label, gold_values = _label_and_values(gold)
        said_label, said_values = _label_and_values(said)
        if gold_label is not None and said_label is not None and self.same_label(gold_label, said_label):
            verdicts.append(all_of(any_of(self.same(a, b) for a in gold_values) for b in said_values))
        if len(gold.parts) == 2 and len(said.parts) == 2:
            sign = self.multiple(gold, said)
            verdicts.append(None if sign is None else sign != 0)
        return any_of(verdicts)

    def same_label(self, gold: Answer, said: Answer) -> bool:
        """The same name; `y` and `f(x)` name the same thing, and so do words."""
        return gold == said or {_label_kind(gold), _label_kind(said)} <= {"value of a function", "words"}

    def multiple(self, gold: Relation, said: Relation) -> int | None:
        """The sign of c in (left - right of said) = c (left - right of gold); 0 where there is none."""
        sides = [_difference(gold), _difference(said)]
        if sides[0] is None or sides[1] is None:
            return 0
        return self.judge.proportional(sides[0], sides[1])

    def same_set(self, gold: Answer, said: Answer) -> Verdict:
        """Sets of reals in any notation; else inequalities that are multiples of each other, unions part by part."""
        gold_set, said_set = real_set(gold), real_set(said)
        if gold_set is not None and said_set is not None:
            if self.clashing_names(gold, said):
                return False
            return self.same_intervals(gold_set, said_set)
        if isinstance(gold, Relation) and isinstance(said, Relation):
            return self.same_inequality(gold, said)
        if isinstance(gold, Union) and isinstance(said, Union):
            return self.in_any_order(gold.parts, said.parts)
        if isinstance(gold, Listing) and isinstance(said, Listing):
            return self.in_any_order(gold.items, said.items)
        return isinstance(gold, Reals) and isinstance(said, Reals)

    def clashing_names(self, gold: Answer, said: Answer) -> bool:
        """Whether both are about a named variable, and not the same one: x > 3 and y > 3."""
        names = [_variables(side) for side in (gold, said)]
        return bool(names[0] and names[1] and names[0] != names[1])

    def same_intervals(self, gold: Sequence[Interval], said: Sequence[Interval]) -> Verdict:
        if len(gold) != len(said):
            return False
        ends = [(a, b) for g, s in zip(gold, said, strict=True) for a, b in ((g.low, s.low), (g.high, s.high))]
        if any(a.closed != b.closed or (a.expr is None) != (b.expr is None) for a, b in ends):
            return False
        if any(a.expr is None and a.at != b.at for a, b in ends):
            return False
        return all_of(
            a.expr == b.expr or self.judge.same(a.expr, b.expr) for a, b in ends if a.expr is not None and b.expr is not None
        )

    def same_inequality(self, gold: Relation, said: Relation) -> Verdict:
        """Part by part, also read backwards; or two sides each, one a multiple of the other."""
        verdicts: list[Verdict] = []
        for parts, signs in ((said.parts, said.signs), _reversed(said)):
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
            return self.same(gold.value if isinstance(gold, Residue) else gold, _residue_value(said))
        modulus = self.same(gold.modulus, said.modulus)
        if modulus is not True:
            return modulus
        return any_of([self.same(gold.value, said.value), _congruent(gold, said)])

    def same_numeral(self, gold: Answer, said: Answer) -> Verdict:
        """The digits in the base asked for; a base left out is the gold's, and a gold without a base is a value."""
        if isinstance(gold, Based):
            return isinstance(said, Quantity) and said.source.replace(" ", "").upper() == gold.digits
        if not isinstance(said, Based) or not isinstance(gold, Quantity) or gold.expr is None:
            return False
        try:
            return self.judge.same(gold.expr, Number(Fraction(int(said.digits, said.base))))
        except ValueError:
            return False


def _expanded(answer: Answer) -> Answer:
    r"""With `\pm` written out, and a set or list of one thing as that thing."""
    if isinstance(answer, Quantity):
        both = alternatives(answer)
        return Listing(both) if len(both) > 1 else answer
    if isinstance(answer, Relation) and set(answer.signs) == {"="} and len(alternatives(answer.parts[-1])) > 1:
        both = alternatives(answer.parts[-1])
        return Listing(tuple(Relation((*answer.parts[:-1], part), answer.signs) for part in both))
    if isinstance(answer, Listing | Bracket):
        items = tuple(part for item in answer.items for part in _spread(item))
        if _is_set(answer) and len(items) == 1:
            return items[0]
        return Listing(items, answer.joined) if isinstance(answer, Listing) else Bracket(answer.opener, items, answer.closer)
    return answer


def _spread(item: Answer) -> tuple[Answer, ...]:
    expanded = _expanded(item)
    return expanded.items if isinstance(expanded, Listing) else (item,)


def _is_set(answer: Answer) -> bool:
    return isinstance(answer, Bracket) and answer.opener == "\\{"


def _items(answer: Answer) -> tuple[Answer, ...]:
    """What a list, a set or a labelled list of them holds; one thing holds itself."""
    return answer.items if isinstance(answer, Listing) or _is_set(answer) else (answer,)  # type: ignore[union-attr]


def _delimiters(bracket: Bracket) -> tuple[str, str]:
    return ("(", ")") if bracket.opener == "\\langle" else (bracket.opener, bracket.closer)


def _column(answer: Answer) -> tuple[Answer, ...]:
    """A column vector's or a point's coordinates."""
    if isinstance(answer, Bracket):
        return answer.items if _delimiters(answer) == ("(", ")") else ()
    if isinstance(answer, Matrix) and all(len(row) == 1 for row in answer.rows):
        return tuple(row[0] for row in answer.rows)
    return ()


def _is_percent(quantity: Quantity) -> bool:
    return quantity.unit is not None and quantity.unit.dimension == "percent"


def _label_and_values(relation: Relation) -> tuple[Answer | None, tuple[Answer, ...]]:
    """The name on the left (or, `5 = x`, on the right) of an equation, and its other parts."""
    if is_label(relation.parts[0]):
        return relation.parts[0], relation.parts[1:]
    if len(relation.parts) == 2 and is_label(relation.parts[1]):
        return relation.parts[1], relation.parts[:1]
    return None, relation.parts


def _has_label(relation: Relation) -> bool:
    return _label_and_values(relation)[0] is not None


def _label_kind(label: Answer) -> str:
    if not isinstance(label, Quantity):
        return "point"
    if isinstance(label.expr, Name):
        words = len(label.expr.text) > 2 and "_" not in label.expr.text
        return "value of a function" if label.expr.text == "y" else "words" if words else "name"
    return "value of a function" if isinstance(label.expr, Call) and label.expr.op == "apply" else "words"


def _named(items: Sequence[Answer]) -> tuple[list[Answer], tuple[Answer, ...]]:
    """(names, values): `x = 2, x = 5`, and `n = 2, 3, 4` in which the first name holds for all."""
    names, values = [], []
    for item in items:
        if isinstance(item, Relation) and set(item.signs) == {"="} and is_label(item.parts[0]):
            names.append(item.parts[0])
            values.append(item.parts[-1])
        else:
            values.append(item)
    if len(names) in (0, len(items)) or (len(names) == 1 and isinstance(items[0], Relation)):
        return names, tuple(values)
    return [], tuple(items)


def _difference(relation: Relation) -> Expr | None:
    """Left minus right."""
    left, right = relation.parts
    if not isinstance(left, Quantity) or not isinstance(right, Quantity) or left.expr is None or right.expr is None:
        return None
    return Call("add", (left.expr, Call("neg", (right.expr,))))


def _reversed(relation: Relation) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    flipped: Callable[[str], str] = lambda sign: {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)  # noqa: E731
    return relation.parts[::-1], tuple(flipped(sign) for sign in relation.signs[::-1])


def _variables(answer: Answer) -> frozenset[str]:
    """Names of the variables that an inequality is about."""
    if isinstance(answer, Relation):
        return frozenset(p.expr.text for p in answer.parts if isinstance(p, Quantity) and isinstance(p.expr, Name))
    if isinstance(answer, Listing):
        return frozenset().union(*map(_variables, answer.items))
    return frozenset()


def _residue_value(answer: Answer) -> Answer:
    return answer.value if isinstance(answer, Residue) else answer


def _congruent(gold: Residue, said: Residue) -> bool:
    """Whether two numbers, or `x = 7` and `x = 18`, differ by a multiple of the modulus."""
    sides = []
    for answer in (gold.value, said.value, gold.modulus):
        if isinstance(answer, Relation):
            answer = answer.parts[-1]
        if not isinstance(answer, Quantity) or answer.expr is None:
            return False
        sides.append(answer.expr)
    if isinstance(gold.value, Relation) and isinstance(said.value, Relation) and gold.value.parts[0] != said.value.parts[0]:
        return False
    try:
        return bool((exact(sides[0]) - exact(sides[1])) % exact(sides[2]) == 0)
    except (Inexact, ZeroDivisionError):
        return False


def _near(gold: Answer, said: Answer) -> bool:
    """Within a hundredth: whether one can be an approximation of the other."""
    from rema_env.grading.numeric import FLOAT, Point, Unsure, value

    if not isinstance(gold, Quantity) or not isinstance(said, Quantity) or gold.expr is None or said.expr is None:
        return False
    try:
        a, b = value(gold.expr, Point(), FLOAT), value(said.expr, Point(), FLOAT)
    except Unsure:
        return False
    return bool(abs(a - b) <= 0.01 * max(abs(a), abs(b)))
