"""Other floating-point numbers in place of those that a task passes beside its tensors."""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from typing import Any

SMALL, LARGE = 0.02, 4.0
"""Numbers nearer to zero keep from a division by zero, and those further away may be limits: ordinary inputs do not
show what they are."""
SPECIAL = (0.0, 1.0)
"""Numbers that programs treat in a way of their own: no noise, no guidance, a limit of a formula."""
_SIZES = re.compile(r"\b(shape|ndim|dim|size|numel|len)\b")
_INFINITY = ("float('inf')", "math.inf", "torch.inf", "np.inf", "numpy.inf")
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
}
MOST_SPECIAL, MOST_TRIES = 4, 8
"""Calls in which one number is special, and how many are tried to find those that the reference bears."""


def moved(form: Any, chooser: random.Random) -> Iterator[Any]:
    """Forms (see `trees.flatten`) in which all numbers are up to a half larger or smaller, the furthest first.

    In the first two those that are `SMALL` become some between 0.05 and 0.5, and `LARGE` and infinite ones some
    between 0.5 and 1.5; zeros (a share, a smoothing) count as small in the first. In the last but one what lies between
    0 and 1 (a share, a decay, a level) stays there.

    Args:
        form: of the inputs.
        chooser: draws the numbers.
    """

    def far(number: float, zeros: bool) -> float:
        if zeros if number == 0 else abs(number) < SMALL:
            return math.copysign(chooser.uniform(0.05, 0.5), number)
        return math.copysign(chooser.uniform(0.5, 1.5), number) if abs(number) > LARGE else near(number)

    def near(number: float) -> float:
        return number * chooser.uniform(0.5, 1.5)

    def within(number: float) -> float:
        power = chooser.uniform(0.5, 2.0)
        return float(number**power) if 0 < number < 1 else near(number)

    for change in (partial(far, zeros=True), partial(far, zeros=False), within, near):
        if (other := with_others(form, partial(_each, change))) != form:
            yield other


def special(form: Any, compared: set[float], chooser: random.Random) -> Iterator[Any]:
    """Forms in which one number is special, in any order: 0, 1, or one with which the task compares, or beside that."""
    singles: list[tuple[int, float]] = []

    def note(at: int, number: float) -> float:
        numbers = dict.fromkeys(SPECIAL)
        for each in sorted(compared):
            if each >= 0 or number < 0:
                numbers |= dict.fromkeys((each, *_beside(each)))
        singles.extend((at, each) for each in numbers if each != number)
        return number

    with_others(form, note)
    chooser.shuffle(singles)
    for place, other in singles:
        yield with_others(form, partial(_one, place, other))


def _beside(number: float) -> tuple[float, float]:
    """A smaller number and a larger one; of a share, shares."""
    if 0 < number < 1:
        return number / 2, (1 + number) / 2
    return number * 0.75, number * 1.25


def _each(change: Callable[[float], float], at: int, number: float) -> float:
    return change(number)


def _one(place: int, other: float, at: int, number: float) -> float:
    return other if at == place else number


def choose(form: Any, source: str, chooser: random.Random, bears: Callable[[Any], bool]) -> None:
    """Try other numbers: all moved, in the furthest way that is borne, and special ones, each by itself.

    Args:
        form: of the inputs, with the numbers that the task passes.
        source: of the task.
        chooser: draws the numbers.
        bears: whether the reference bears a form, which is then used.
    """
    any(bears(other) for other in moved(form, chooser))
    tried = islice(special(form, compared_in(source), chooser), MOST_TRIES)
    list(islice((other for other in tried if bears(other)), MOST_SPECIAL))


def with_others(form: Any, change: Callable[[int, float], float]) -> Any:
    """A form in which numbers are others: those that `change` makes of the place of each among them and itself."""
    place = count()

    def changed(item: Any) -> Any:
        if isinstance(item, list):
            return [changed(each) for each in item]
        if not isinstance(item, dict):
            return item
        ((kind, value),) = item.items()
        if kind == "float":
            number = float.fromhex(value)
            return item if math.isnan(number) else {kind: change(next(place), number).hex()}
        return {kind: changed(value)} if kind in ("list", "tuple", "dict") else item

    return changed(form)


def compared_in(source: str) -> set[float]:
    """The numbers with which a program's text compares others than sizes, or that it gives to `max` and `min`.

    They may have names.
    """
    tree = ast.parse(source)
    known: dict[str, float] = {}
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for node in sorted(named, key=lambda node: node.lineno):
        if (number := _number(node.value, known)) is not None:
            known[ast.unparse(node.targets[0])] = number
    found: set[float] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Compare | ast.Call) and _SIZES.search(ast.unparse(each)):
            continue
        operands: list[ast.expr] = []
        if isinstance(each, ast.Compare):
            operands = [each.left, *each.comparators]
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in ("max", "min"):
            operands = each.args
        found |= {number for operand in operands if (number := _number(operand, known)) is not None}
    return found


def _number(node: ast.expr, known: Mapping[str, float]) -> float | None:
    """The number that an expression stands for; None: it is not known."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            one = _number(operand, known)
            return None if one is None else -one
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            one, other = _number(left, known), _number(right, known)
            if one is None or other is None:
                return None
            with contextlib.suppress(ArithmeticError):
                return _SIGNS[type(sign)](one, other)
            return None
    text = ast.unparse(node)
    return math.inf if text in _INFINITY else known.get(text)
