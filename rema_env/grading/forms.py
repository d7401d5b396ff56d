"""Views of an answer that comparing needs: its items, its name and values, its coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from rema_env.grading.answer import (
    Answer,
    Bracket,
    Listing,
    Matrix,
    Named,
    Quantity,
    Relation,
    Residue,
    is_asked,
    is_label,
)
from rema_env.grading.exact import Inexact, exact
from rema_env.grading.expression import Call, Expr, Name
from rema_env.grading.numeric import FLOAT, Unsure, value
from rema_env.grading.points import Point, names
from rema_env.grading.reals import is_set_notation
from rema_env.grading.signs import alternatives


def expanded(answer: Answer) -> Answer:
    r"""With `\pm` written out, and a set or list of one thing as that thing."""
    if isinstance(answer, Relation) and len(answer.parts) == 2 and is_label(answer.parts[0]):
        right, sign = answer.parts[1], answer.signs[0]
        if (sign == "in" and is_set(right)) or (sign == "=" and is_set_notation(right)):
            return expanded(right)
    if isinstance(answer, Listing):
        return Listing(_spread(answer.items), answer.joined)
    if isinstance(answer, Bracket) and is_set(answer):
        items = _spread(answer.items)
        return items[0] if len(items) == 1 else Bracket(answer.opener, items, answer.closer)
    several = alternatives(answer)
    return Listing(several) if len(several) > 1 else answer


def _spread(items: Sequence[Answer]) -> tuple[Answer, ...]:
    """Each item, or those it stands for."""
    spread: list[Answer] = []
    for item in items:
        whole = expanded(item)
        spread.extend(whole.items if isinstance(whole, Listing) else (item,))
    return tuple(spread)


def is_set(answer: Answer) -> bool:
    """Whether it stands in braces."""
    return isinstance(answer, Bracket) and answer.opener == "\\{"


def items_of(answer: Answer) -> tuple[Answer, ...]:
    """What a list, a set or a labelled list of them holds; one thing holds itself."""
    return answer.items if isinstance(answer, Listing) or is_set(answer) else (answer,)  # type: ignore[union-attr]


def delimiters_of(bracket: Bracket) -> tuple[str, str]:
    """What stands around a point or interval; angle brackets hold a point too."""
    return ("(", ")") if bracket.opener == "\\langle" else (bracket.opener, bracket.closer)


def coordinates(answer: Answer) -> tuple[Answer, ...]:
    """A column vector's or a point's coordinates."""
    if isinstance(answer, Bracket):
        return answer.items if delimiters_of(answer) == ("(", ")") else ()
    if isinstance(answer, Matrix) and all(len(row) == 1 for row in answer.rows):
        return tuple(row[0] for row in answer.rows)
    return ()


def is_percent(quantity: Quantity) -> bool:
    """Whether it carries a percent sign."""
    return quantity.unit is not None and quantity.unit.dimension == "percent"


def label_and_values(relation: Relation) -> tuple[Answer | None, tuple[Answer, ...]]:
    """The name on the left (or, `5 = x`, on the right) of an equation, and its other parts."""
    if is_label(relation.parts[0]):
        return relation.parts[0], relation.parts[1:]
    if len(relation.parts) == 2 and is_label(relation.parts[1]):
        return relation.parts[1], relation.parts[:1]
    return None, relation.parts


def has_label(relation: Relation) -> bool:
    """Whether one side of an equation only names what is asked."""
    return label_and_values(relation)[0] is not None


def label_kind(label: Answer) -> str:
    """What a name is: a point, a name, the value of a function, words."""
    if not isinstance(label, Quantity):
        return "point"
    if isinstance(label.expr, Name):
        words = len(label.expr.text) > 2 and "_" not in label.expr.text
        return "value of a function" if label.expr.text == "y" else "words" if words else "name"
    return "value of a function" if isinstance(label.expr, Call) and label.expr.op == "apply" else "words"


def is_computation(relation: Relation) -> bool:
    r"""Whether all its parts are numbers: `0.56 = 56\%`, each of which is the answer."""
    parts = [part.expr for part in relation.parts if isinstance(part, Quantity) and part.expr is not None]
    return set(relation.signs) == {"="} and len(parts) == len(relation.parts) and not any(map(names, parts))


def is_circular(relation: Relation) -> bool:
    """Whether the name on one side stands in a value too: n = n + 1 gives n no value."""
    label, values = label_and_values(relation)
    if not isinstance(label, Quantity) or not isinstance(label.expr, Name):
        return False
    given = [part.expr for part in values if isinstance(part, Quantity) and part.expr is not None]
    return any(expr != label.expr and label.expr.text in names(expr) for expr in given)


def bare_label(label: Answer) -> Answer:
    r"""The name alone: `C` for `C(h)`, `k` for `k_{\max}`."""
    if not isinstance(label, Quantity):
        return label
    expr = label.expr
    if isinstance(expr, Call) and expr.op == "apply":
        expr = expr.args[0]
    if isinstance(expr, Name) and expr.text.endswith(("_\\max", "_\\min")):
        expr = Name(expr.text[:-5])
    return Quantity(expr, label.source)


def are_numbered(names: Sequence[Answer]) -> bool:
    """Whether the names are one name numbered, `x_1, x_2`: their order says nothing."""
    heads = {
        name.expr.text.partition("_")[0] if isinstance(name, Quantity) and isinstance(name.expr, Name) else ""
        for name in names
    }
    return len(heads) == 1 and "" not in heads and len(set(names)) == len(names) > 1


def unnamed(answer: Answer) -> Answer:
    """A curve's equation without its name."""
    return answer.equation if isinstance(answer, Named) else answer


def asked_and_values(relation: Relation) -> tuple[Answer, ...]:
    """The values that an equation gives to a number asked for: what stands beside its name, `x`, or `m + n`."""
    label, values = label_and_values(relation)
    return relation.parts[1:] if label is None and is_asked(relation.parts[0]) else values


def names_and_values(items: Sequence[Answer]) -> tuple[list[Answer], tuple[Answer, ...]]:
    """(names, values): `x = 2, x = 5`, and `n = 2, 3, 4` in which the first name holds for all."""
    names: list[Answer] = []
    values: list[Answer] = []
    for item in items:
        if isinstance(item, Named):
            names.append(Quantity(Name(item.name), item.name))
            values.append(item.equation)
        elif isinstance(item, Relation) and set(item.signs) == {"="} and is_label(item.parts[0]):
            names.append(item.parts[0])
            values.append(item.parts[-1])
        else:
            values.append(item)
    if len(names) in (0, len(items)) or (len(names) == 1 and isinstance(items[0], Relation)):
        return names, tuple(values)
    return [], tuple(items)


def difference(relation: Relation) -> Expr | None:
    """Left minus right."""
    left, right = relation.parts
    if not isinstance(left, Quantity) or not isinstance(right, Quantity) or left.expr is None or right.expr is None:
        return None
    return Call("add", (left.expr, Call("neg", (right.expr,))))


_BACKWARDS = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def read_backwards(relation: Relation) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    """Parts and signs from right to left."""
    return relation.parts[::-1], tuple(_BACKWARDS.get(sign, sign) for sign in relation.signs[::-1])


def variables_of(answer: Answer) -> frozenset[str]:
    """Names of the variables that an inequality is about."""
    if isinstance(answer, Relation):
        return frozenset(p.expr.text for p in answer.parts if isinstance(p, Quantity) and isinstance(p.expr, Name))
    if isinstance(answer, Listing):
        return frozenset().union(*map(variables_of, answer.items))
    return frozenset()


def residue_value(answer: Answer) -> Answer:
    """Without the modulus."""
    return answer.value if isinstance(answer, Residue) else answer


def is_congruent(gold: Residue, said: Residue) -> bool:
    """Whether two numbers, or `x = 7` and `x = 18`, differ by a multiple of the modulus."""
    sides = []
    for answer in (gold.value, said.value, gold.modulus):
        if isinstance(answer, Relation):
            answer = answer.parts[-1]
        if not isinstance(answer, Quantity) or answer.expr is None:
            return False
        sides.append(answer.expr)
    if (
        isinstance(gold.value, Relation)
        and isinstance(said.value, Relation)
        and gold.value.parts[0] != said.value.parts[0]
    ):
        return False
    try:
        return bool((exact(sides[0]) - exact(sides[1])) % exact(sides[2]) == 0)
    except (Inexact, ZeroDivisionError):
        return False


def is_below_one(answer: Quantity) -> bool:
    """Whether it is a number between 0 and 1, which a percent sign beside it divides by 100."""
    if answer.expr is None:
        return False
    try:
        return bool(0 < abs(value(answer.expr, Point(), FLOAT)) < 1)
    except Unsure:
        return False


def is_near(gold: Answer, said: Answer) -> bool:
    """Within a hundredth: whether one can be an approximation of the other."""
    if not isinstance(gold, Quantity) or not isinstance(said, Quantity) or gold.expr is None or said.expr is None:
        return False
    try:
        a, b = value(gold.expr, Point(), FLOAT), value(said.expr, Point(), FLOAT)
    except Unsure:
        return False
    b = b / 100 if is_percent(said) and not is_percent(gold) else b
    return bool(abs(a - b) <= 0.01 * max(abs(a), abs(b)))
