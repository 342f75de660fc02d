"""Drawing of inputs: by the task's own `get_inputs()`, with other values where the reference bears them."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import trees
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import constants, distributions, rare
from kernelrl.executor.contest.constants import Variation
from kernelrl.executor.contest.distributions import BOUNDARY, COUNTED, LEAVING, MIXES, NOT_FINITE, RARE, WILD
from kernelrl.executor.contest.few_places import vary_few
from kernelrl.executor.contest.thresholds import GRID, LARGEST, MOST
from kernelrl.executor.judging.arena import Draw, Shape, span_of, view, write
from kernelrl.executor.judging.groups import FEW, neighbours, steps
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds

_ALIGNMENT = 64
_OTHER_GENERATORS = re.compile(r"\b(numpy|random)\b")
_PYTHON = re.compile(r"^\s*(import\b[^#\n]*\brandom\b|from random import\b)", re.MULTILINE)
APART_FROM, APART_TO = 1000, 1 << 18
"""Between these numbers half of the inputs of a hidden distribution hold it in some of the task's draws alone."""
_ANOTHER = 1 << 20
"""Inputs from which equal parts of others take their values have numbers beyond all others."""
_REAL = "; pass complex numbers as torch.view_as_real(…), and make them of it in forward"


@dataclass(frozen=True)
class Copies:
    """Equal parts of one input along a dimension."""

    number: int
    """Of the input."""
    dim: int
    size: int
    """Number of indices of a part, or of equal ones in turn."""
    in_turn: bool
    """Equal are indices in turn (`repeat_interleave`), and not parts in turn (`repeat`)."""

    def first(self, values: torch.Tensor) -> torch.Tensor:
        """The first of the equal parts."""
        if self.in_turn:
            return values.index_select(self.dim, torch.arange(0, values.shape[self.dim], self.size))
        return values.narrow(self.dim, 0, self.size)

    def repeat(self, part: torch.Tensor, size: int) -> torch.Tensor:
        """A part in place of all of them: `size` indices."""
        if self.in_turn:
            return part.repeat_interleave(self.size, self.dim)
        return torch.cat([part] * (size // self.size), self.dim)


class Images:
    """Draws the bytes that the arena holds before a call.

    Args:
        own: the reference's process.
        seeds: of the draws.
    """

    def __init__(self, own: ReferenceProcess, seeds: Seeds):
        self._own = own
        self._seeds = seeds
        self.varying: list[bool]
        """Which input tensors differ from seed to seed."""
        self.draws_nothing: bool
        self.loose: list[Variation | None] = []
        """How inputs that the task makes constant vary; None: they do not."""
        self.firm: set[Draw] = set()
        """Draws in which they do not, because the reference fails."""
        self.twins: list[tuple[int, int]] = []
        """Pairs of inputs that the task makes equal and that are drawn apart, by their numbers."""
        self.copies: list[Copies] = []
        """Equal parts of inputs that are drawn apart."""
        self.plain: list[tuple[int, float]] = []
        """Draws whose values are inputs as they are, see `PlainDraws.reach`."""
        self.beyond: list[tuple[int, float]] = []
        """Those of them that may leave the interval of their operator."""
        self.kept: dict[str, list[tuple[int, float]]] = {}
        """Where the reference does not bear all of these: which it bears, by distribution."""
        self.thresholds: dict[str, Any] | None = None
        """What the reference compares its data with (`Thresholds.found`); None: hidden distributions hold nothing more.
        """
        self.tame: set[Distribution] = set()
        """Distributions without values far from zero, because the reference does not bear these."""
        self.near: set[Distribution] = set()
        """Distributions that hold nothing more, because the reference does not bear it."""
        self.mixes_integers = False
        """Integers that are drawn hold numbers that matter, and the ends of their range, in further distributions."""
        self.unmixed: set[Distribution] = set()
        """Distributions in which they do not, because the reference does not bear it."""
        self.draws_by_python = bool(_PYTHON.search(own.task.source))
        """The task may draw by Python's `random`."""
        self.within: set[Distribution] = set()
        """Distributions in which what that draws is not at its ends, because the reference does not bear it."""
        self.draws_counts = False
        """The task draws whole numbers of which there is no largest."""
        self.uncounted: set[Distribution] = set()
        """Distributions in which these are no larger, because the reference does not bear it."""
        self.num_drawn = 0
        """Draws of one call of `get_inputs()`."""
        self.only: dict[str, dict[str, Any]] = {}
        """Which draws hold what a distribution holds where the reference does not bear that all do, see `Further`."""
        self.borne_apart: frozenset[int] = frozenset()
        """Draws that the reference bore without the others when that was last found out."""
        self.may_split_not_finite = False
        """What becomes of NaN and infinity of one draw alone is what the task says of them."""
        self.draws_numbers = False
        """Draws have had other numbers, or what else the task passes beside its tensors."""
        self._foreign: list[bool] = []
        self._minds_not_finite = False
        self._most = math.inf  # magnitude of hidden values

    def find_varying(self, first: torch.Tensor, layout: dict[str, Any]) -> None:
        """Compare the first image with another one."""
        second = self.of(layout, self._own.ask(self.question(Draw(1), {})))
        spans = [span_of(place) for place in layout["tensors"]]
        self.varying = [not torch.equal(first[span], second[span]) for span in spans]
        self.draws_nothing = not any(self.varying)
        if any(place["dtype"] == "torch.float16" for place in layout["tensors"]):
            self._most = distributions.largest(torch.float16)
        self._foreign = [False] * len(spans)
        if _OTHER_GENERATORS.search(self._own.task.source):
            question = self.question(Draw(0), {})
            other = self.of(layout, self._own.ask(question | {"other_seed": question["seed"] ^ 1}))
            self._foreign = [not torch.equal(first[span], other[span]) for span in spans]

    def learn(
        self,
        drawn: dict[str, Any],
        thresholds: dict[str, Any],
        mixes_integers: bool,
        minds_not_finite: bool,
        may_split_not_finite: bool,
    ) -> None:
        """From now on hidden distributions hold more than the task's own draws do.

        Args:
            drawn: what the first draw of the task's own inputs has told, see `Contestant.do_inputs`.
            thresholds: what the reference compares its data with, see `Thresholds.found`.
            mixes_integers: integers are drawn from a range, and any number of equal ones is no matter.
            minds_not_finite: the task says what becomes of NaN or infinity.
            may_split_not_finite: it says that of each input, and not of all by way of one.
        """
        self.mixes_integers = mixes_integers
        self.draws_counts = drawn["draws_counts"]
        self.num_drawn = drawn["num_drawn"]
        self._minds_not_finite = minds_not_finite
        self.may_split_not_finite = may_split_not_finite
        named = _numbers_in(self._own.task.source)
        if thresholds["reads_integers"]:
            whole = [int(each) for each in named if each % 1 == 0 and abs(each) < 2**62]
            thresholds = thresholds | {"integers": [*thresholds["integers"], *whole[:MOST]], "alone": []}
        if thresholds["relates"]:
            plain = [float(each) for each in named if abs(each) < LARGEST and each * GRID % 1 == 0]
            thresholds = thresholds | {kind: [*thresholds[kind], *plain[:MOST]] for kind in ("floats", "ties")}
        self.thresholds = thresholds
        self.plain = [(number, factor) for number, factor in drawn["plain"]]
        self.beyond = [] if thresholds["makes_indices"] else self.plain

    def forget(self) -> None:
        """What the reference does not bear of one draw, it may bear of others."""
        self.firm.clear()
        self.kept.clear()
        self.tame.clear()
        self.uncounted.clear()
        self.unmixed.clear()
        self.within.clear()
        self.only.clear()
        self.borne_apart = frozenset()
        self.near.clear()

    @property
    def may_be_split(self) -> bool:
        """Whether some draws may hold something without the others."""
        return self.num_drawn > 1

    def chooser(self, draw: Draw) -> random.Random:
        """What chooses by chance for a draw, and alike for all candidates."""
        return random.Random(self._seeds.of(draw, "choice"))

    def groups(self, distribution: Distribution, numbers: Sequence[int]) -> tuple[list[list[int]], list[list[int]]]:
        """Groups of draws of one call of `get_inputs()`, and others that are tried where it bears none of them.

        Those of many that were borne apart before come first. Else, of two that exclude each other, either may.
        """
        groups = neighbours(numbers)
        random.Random(self._seeds.of(Draw(0, distribution), "order")).shuffle(groups)
        together = [number for number in numbers if number in self.borne_apart]
        return [together, *groups] if together and len(numbers) > FEW else groups, steps(numbers)

    def varies_constants(self, draw: Draw) -> bool:
        """Whether a draw has other constants than the task's."""
        is_shown = draw.distribution == "task" and not draw.index and not draw.shape
        return not is_shown and any(self.loose) and draw not in self.firm

    def further(self, distribution: str) -> dict[str, Any]:
        """What draws hold beside a distribution (`drawing.Further`)."""
        compared = self.thresholds
        only = self.only.get(distribution, {})
        if compared is None or distribution in self.near:
            return only
        counted = self.draws_counts and distribution in COUNTED and distribution not in self.uncounted
        further = only | self._mixed(distribution) | self._floats(distribution, compared)
        if self.draws_by_python and distribution not in ("task", *self.within):
            further |= {"python_ends": True}
        return further | {"counts": True} if counted else further

    def _apart(self, draw: Draw) -> dict[str, Any]:
        """Some of the task's draws, which alone hold the distribution; nothing: all do that may."""
        kept = self.num_drawn < 2 or draw.distribution in ("task", BOUNDARY, *RARE, *NOT_FINITE, *self.only)
        chooser = self.chooser(replace(draw, shape=0))
        if kept or not APART_FROM <= draw.index < APART_TO or chooser.random() < 0.5:
            return {}
        some = [number for number in range(1, self.num_drawn + 1) if chooser.random() < 0.5]
        return {"only": some or [chooser.randint(1, self.num_drawn)], "elsewhere": False}

    def _mixed(self, distribution: str) -> dict[str, Any]:
        """Which integers come how often."""
        if not self.mixes_integers or distribution in self.unmixed or distribution not in MIXES:
            return {}
        assert self.thresholds is not None
        return {"integers": self.thresholds["integers"], "mixed": MIXES[distribution]}

    def _floats(self, distribution: str, compared: dict[str, Any]) -> dict[str, Any]:
        beyond = self.kept.get(distribution, self.beyond)
        found: dict[str, Any] = {"far": True} if distribution in WILD and distribution not in self.tame else {}
        if distribution in LEAVING:
            found |= {"beyond": beyond} if beyond else {}
            if distribution in RARE:
                not_finite = self._minds_not_finite and (distribution not in self.only or self.may_split_not_finite)
                return found | {"floats": compared["floats"], "not_finite": not_finite}
            return found
        if distribution == "infinite":
            infinities = [] if self._minds_not_finite else compared["infinities"]
            return {"infinities": infinities} if infinities else {}
        if distribution == "zeros":
            return {"rows": True, "beyond": self.plain, "num_drawn": self.num_drawn}
        if distribution == "ties" and (compared["ties"] or compared["integers"]):
            return {"floats": compared["ties"], "integers": compared["integers"], "beyond": beyond}
        return found

    def draw(self, draw: Draw, shape: Shape, between: float = 0.0) -> tuple[torch.Tensor, Shape] | None:
        """The inputs of a draw, with the shape that has its numbers: those that the task passes beside its tensors.

        None: the distribution does not apply to this task.

        Args:
            draw: which inputs.
            shape: of the inputs.
            between: see `drawing.Further`.
        """
        question = self.question(draw, shape.sizes)
        drawn = self._own.ask(question | {"further": question["further"] | {"between": between}})
        if not shape.numbers_vary and drawn["done"] != shape.layout["form"]:
            shape = replace(shape, layout=shape.layout | {"form": drawn["done"]})
            self.draws_numbers = True
        image = self._finish(draw, shape, drawn, self.of(shape.layout, drawn))
        return None if image is None else (image, shape)

    def _finish(self, draw: Draw, shape: Shape, drawn: dict[str, Any], image: torch.Tensor) -> torch.Tensor | None:
        """Vary what the task makes constant or equal; see `draw`."""
        generator = torch.Generator().manual_seed(self._seeds.of(draw, "values"))
        if draw.distribution != "task":
            if self.draws_nothing or not drawn["num_drawn"]:
                return self._redraw(image, draw.distribution, shape, generator, self.varying)
            is_other = self._redraw(image, draw.distribution, shape, generator, self._foreign) is not None
            if not drawn["num_redrawn"] and not is_other:
                return None
        elif not draw.index and not draw.shape:
            return image
        for number, (loose, place) in enumerate(zip(self.loose, shape.layout["tensors"], strict=True)):
            values = view(image, place)
            if loose and place["bytes"] and draw not in self.firm:
                table = find_table(number, values)
                shown = values if table is None else table.first(values)
                new = self._vary(loose, shown, generator, draw, _most(values, number, shape))
                write(values, new if table is None else table.repeat(new, values.shape[-1]))
            elif self.draws_nothing and place["bytes"]:  # the reference bears nothing else, and inputs must be fresh
                flat = image[span_of(place)].view(trees.DTYPES[place["dtype"]])
                flat.copy_(distributions.shuffle(flat, generator))
        if self.copies and _differs(draw):
            another = Draw(draw.index + _ANOTHER, draw.distribution, draw.shape)
            others = self.of(shape.layout, self._own.ask(self.question(another, shape.sizes)))
            for copies in self.copies:
                place = shape.layout["tensors"][copies.number]
                _draw_apart(view(image, place), view(others, place), copies, generator)
        for _, twin in self.twins if _differs(draw) else ():
            values = view(image, shape.layout["tensors"][twin])
            write(values, distributions.part_ways(values, generator))
        return image

    def _vary(
        self, way: Variation, values: torch.Tensor, generator: torch.Generator, draw: Draw, most: int
    ) -> torch.Tensor:
        if _in_few_places(draw) and values.numel() > 1:
            return vary_few(way, values, generator)
        decides = draw.distribution == "task" and draw.index == 1  # whether it is borne, so it goes as far as any
        alone = _differs(draw)
        if (
            draw.index % 4
            and not decides
            and (matter := _that_matter(values, self.thresholds))
            and rare.coin(generator)
        ):
            return torch.full_like(values, matter[int(torch.randint(len(matter), (), generator=generator))])
        if way in ("either", "more"):  # of four draws one has the number that is shown, and one a smaller one
            if draw.index % 4 == 0:
                return values
            if draw.index % 4 < 3 or way == "more":
                return torch.full_like(values, most) if decides else constants.count_on(values, generator, most)
            way = "others"
        elif values.numel() == 1 and values.is_floating_point():  # zero would hide much of what is drawn
            alone = decides or float(torch.rand((), generator=generator)) < constants.SHARE_OTHERS
            compared = self.thresholds["compared"] if self.thresholds is not None else []
            numbers = [number for number in compared if number and number * float(values) >= 0]
            if numbers and not alone and float(torch.rand((), generator=generator)) < constants.SHARE_COMPARED:
                return torch.full_like(values, numbers[int(torch.randint(len(numbers), (), generator=generator))])
        if way in constants.OF_ALL:
            new = constants.OF_ALL[way](values, generator, alone)
            is_borne = way != "others" or not values.is_floating_point()  # zeros of a mask
            may_hide = self.thresholds is not None and (not self.thresholds["masks"] or draw.distribution != "task")
            hides_rows = is_borne and may_hide
            return constants.with_row(new, values, generator) if hides_rows else new
        return constants.VARIATIONS[way](values, generator)

    def _redraw(
        self,
        image: torch.Tensor,
        distribution: Distribution,
        shape: Shape,
        generator: torch.Generator,
        which: list[bool],
    ) -> torch.Tensor | None:
        """Another distribution for finished inputs, where the task draws nothing, or not through PyTorch."""
        changed = False
        for varies, place in zip(which, shape.layout["tensors"], strict=True):
            values = view(image, place)
            if not (varies or self.draws_nothing) or not place["bytes"]:
                continue
            if (new := distributions.redraw(distribution, values, generator)) is not None:
                write(values, new)
                changed = True
        return image if changed else None

    def question(self, draw: Draw, sizes: dict[str, int]) -> dict[str, Any]:
        """The question that draws inputs, with these values of the task's constants."""
        inputs = Draw(draw.index, draw.distribution, draw.shape)  # the same ones with other parameters
        keyed = self._own.settings.seeds == "secret"
        question = {"do": "inputs", "seed": self._seeds.of(inputs), "sizes": sizes}
        further = self.further(draw.distribution) | self._apart(inputs)
        if draw.distribution not in ("task", BOUNDARY) and self._most < math.inf:
            further |= {"most": self._most}
        return question | {"distribution": draw.distribution, "keyed": keyed, "further": further}

    def lay_out(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """Where drawn inputs lie in the arena."""
        size = 0
        tensors = []
        for item in drawn["tensors"]:
            if item["stride"] is None or item["dtype"] not in trees.DTYPES or item["device"] != "cpu":
                raise TaskError(
                    f"task {self._own.task.id}: an input is a {item['layout']} {item['dtype']} tensor "
                    f"on {item['device']}; "
                    f"inputs must be strided CPU tensors{_REAL if 'complex' in item['dtype'] else ' of real numbers'}"
                )
            span = trees.span_bytes(item["shape"], item["stride"], trees.DTYPES[item["dtype"]].itemsize)
            form = {key: item[key] for key in ("dtype", "shape", "stride", "device")}
            tensors.append(form | {"offset": size, "bytes": span})
            size += -(-max(span, 1) // _ALIGNMENT) * _ALIGNMENT
        return {"size": max(size, _ALIGNMENT), "form": drawn["done"], "tensors": tensors}

    def of(self, layout: dict[str, Any], drawn: dict[str, Any]) -> torch.Tensor:
        """The image of inputs that were just drawn."""
        expected = [(item["dtype"], item["shape"], item["stride"]) for item in layout["tensors"]]
        if [(item["dtype"], item["shape"], item["stride"]) for item in drawn["tensors"]] != expected:
            raise TaskError(f"task {self._own.task.id}: get_inputs() returns other shapes or dtypes from call to call")
        image = torch.empty(layout["size"], dtype=torch.uint8)
        end = 0
        for item, place in zip(drawn["tensors"], layout["tensors"], strict=True):
            image[end : place["offset"]] = 0
            end = place["offset"] + place["bytes"]
            self._own.process.read_into(image[place["offset"] : end], item["pointer"])
        image[end:] = 0
        return image


def _numbers_in(source: str) -> list[float]:
    """Numbers that a text names, of either sign: with some of them it may compare what it reads, or has computed."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    named = {each for each in constants if isinstance(each, int | float) and not isinstance(each, bool)}
    return [sign * number for number in sorted(named) if math.isfinite(number) for sign in (1, -1)]


def _differs(draw: Draw) -> bool:
    """Of two draws one has another value for a number that is alone, and is without the equality of equal inputs."""
    return draw.index % 2 == 1


def _that_matter(values: torch.Tensor, thresholds: dict[str, Any] | None) -> list[int]:
    """Integers in place of one that is alone for which the reference's operators do something else."""
    is_alone = values.numel() == 1 and not values.is_floating_point() and values.dtype != torch.bool
    if not is_alone or thresholds is None:
        return []
    return [number for number in thresholds["alone"] if number <= torch.iinfo(values.dtype).max]


def _most(values: torch.Tensor, number: int, shape: Shape) -> int:
    """Up to which a positive integer that is alone may grow: below the next size of another input, which it may index.

    Args:
        values: the integer, or something else.
        number: of the input that it is.
        shape: of the inputs.
    """
    if values.numel() != 1 or values.is_floating_point() or values.dtype == torch.bool:
        return 0
    shown = int(values)
    others = (place for other, place in enumerate(shape.layout["tensors"]) if other != number)
    sizes = [size for place in others for size in place["shape"] if size > 1 and size >= shown]
    most = max(shown, min(sizes) - 1) if sizes else constants.FURTHER * shown
    return min(most, torch.iinfo(values.dtype).max)


def _in_few_places(draw: Draw) -> bool:
    """Whether inputs that the task makes constant are as it shows them but for few places.

    Of the calls on the task's own inputs, of which the timed ones are some, it is one of three: a program that is made
    for what the task shows gains nothing by the others.
    """
    return draw.index % 3 == 2 if draw.distribution == "task" else draw.index % 2 == 0


def find_copies(number: int, values: torch.Tensor) -> Copies | None:
    """Equal parts of an input along one of its dimensions: the smallest in turn, or the most equal indices in turn.

    Along the last of several dimensions they are a structure, see `find_table`.
    """
    dims = values.dim() if values.dim() < 2 else values.dim() - 1
    return next((found for dim in range(dims) if (found := _copies_along(number, values, dim))), None)


def find_table(number: int, values: torch.Tensor) -> Copies | None:
    """Equal parts of several numbers along the last of several dimensions, as of a table of angles; None: there are
    none, or the numbers are whole, such as a mask's."""
    if values.dim() < 2 or values.shape[-1] < 2 or not values.is_floating_point() or constants.are_whole(values):
        return None
    found = _copies_along(number, values, values.dim() - 1)
    return None if found is None or found.size == 1 else found


def _copies_along(number: int, values: torch.Tensor, dim: int) -> Copies | None:
    size = values.shape[dim]
    parts = _divisors(size) if values.stride(dim) else []
    for part in parts:
        if not torch.equal(values.narrow(dim, 0, 1), values.narrow(dim, part, 1)):
            continue
        if torch.equal(values.narrow(dim, 0, size - part), values.narrow(dim, part, size - part)):
            return Copies(number, dim, part, in_turn=False)
    for part in reversed(parts[1:]):
        if not torch.equal(values.narrow(dim, 0, 1), values.narrow(dim, part - 1, 1)):
            continue
        if torch.equal(values.index_select(dim, torch.arange(size) // part * part), values):
            return Copies(number, dim, part, in_turn=True)
    return None


def _divisors(size: int) -> list[int]:
    """Those of a size but itself, the smallest first."""
    small = [number for number in range(1, math.isqrt(size) + 1) if size % number == 0]
    return sorted({*small, *(size // number for number in small)} - {size})


def _draw_apart(values: torch.Tensor, others: torch.Tensor, copies: Copies, generator: torch.Generator) -> None:
    """Give some of the equal parts, and among them the last one, but never the first, values of another draw."""
    index = torch.arange(values.shape[copies.dim])
    copy = index % copies.size if copies.in_turn else index // copies.size
    chosen = torch.rand(int(copy.max()) + 1, generator=generator) < 0.5
    chosen[0], chosen[-1] = False, True
    form = [-1 if dim == copies.dim else 1 for dim in range(values.dim())]
    write(values, torch.where(chosen[copy].reshape(form), others, values))
