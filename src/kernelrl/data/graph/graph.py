"""A typed operator graph, and the growing of one: what operators see while they extend it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt

HALF = ("float16", "bfloat16")


class Dials(BaseModel):
    """How difficult graphs are (`configs/tasks/graph.yaml`). Weights need not add up to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_ops: PositiveInt = 1
    max_ops: PositiveInt = 5
    """Operators in a graph, views not counted."""
    categories: dict[str, NonNegativeFloat] | None = None
    """Weight of each category as the one that a graph is drawn around; None: all alike."""
    fan_out: float = Field(0.3, ge=0, le=1)
    """Chance that a second operand is a value that the graph has already used, rather than a new input."""
    views: float = Field(0.2, ge=0, le=1)
    """Chance that a transpose, reshape or slice stands before an operator."""
    parameters: float = Field(0.6, ge=0, le=1)
    """Chance that a weight is a parameter of the model rather than an input."""
    dtypes: dict[str, NonNegativeFloat] = {"float32": 0.8, "float16": 0.1, "bfloat16": 0.1}
    """Weight of each floating-point dtype; a graph with an operator that has no 16-bit reference is float32."""
    shape_ranges: float = Field(0.3, ge=0, le=1)
    """Chance that a graph whose program does not depend on the first dimension declares a range for it."""
    min_elements: PositiveInt = 2**16
    max_elements: PositiveInt = 2**20
    """Elements of the first input, and (the largest) of any value."""
    max_flops: PositiveInt = 300_000_000
    """Multiply-adds of one operator, times two."""


class Dim(int):
    """A length that the program names rather than spells; arithmetic gives plain numbers."""

    name = "N"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return self.name


Shape = tuple[int, ...]


def comma(shape: Sequence[int]) -> str:
    """Lengths as arguments: `N, 64`."""
    return ", ".join(map(str, shape))


@dataclass(frozen=True)
class Value:
    """A tensor of the graph: how the program writes it, and its type."""

    text: str
    shape: Shape
    dtype: str = "float32"

    def __str__(self) -> str:
        return self.text

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def floating(self) -> bool:
        return self.dtype.startswith(("float", "bfloat"))


class UnfitError(Exception):
    """An operator cannot follow here; another one is drawn."""


@dataclass
class Graph:
    """A graph as it grows, in the order of its program.

    Attributes:
        ops: names of the operators in order of application, views included.
        inputs: `forward`'s arguments and the expressions that draw them.
        sizes: `__init__`'s arguments and their values.
        members: statements of `__init__`.
        lines: statements of `forward`.
        values: floating-point results so far, the first input included.
        outputs: what `forward` returns.
    """

    rng: random.Random
    dials: Dials
    dtype: str
    ops: list[str] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    outputs: tuple[Value, ...] = ()

    def require(self, fits: bool) -> None:
        """Raises UnfitError unless it fits."""
        if not fits:
            raise UnfitError

    def cost(self, flops: int) -> None:
        """Raises UnfitError where an operator would be too slow."""
        self.require(flops <= self.dials.max_flops)

    def length(self, x: Value, axis: int, low: int, high: int = 1 << 30) -> int:
        """A length that the program spells, not shorter than `low` nor longer than `high`.

        Raises:
            UnfitError: it is another one.
        """
        length = x.shape[axis]
        self.require(low <= length <= high and not isinstance(length, Dim))
        return length

    def choose(self, *options: int) -> int:
        return self.rng.choice(options)

    def input(
        self, name: str, shape: Shape, draw: str = "torch.randn({shape}{dtype})", dtype: str | None = None
    ) -> Value:
        """A new argument of `forward`; `draw` is the expression that draws it."""
        name = _fresh(name, self.inputs)
        dtype = dtype or self.dtype
        keyword = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        self.inputs[name] = draw.format(shape=comma(shape) or "()", dtype=keyword)
        return Value(name, shape, dtype)

    def indices(self, name: str, high: int, shape: Shape) -> Value:
        """A new argument of integers below `high`."""
        comma_of_one = "," if len(shape) == 1 else ""
        return self.input(name, shape, f"torch.randint({high}, ({{shape}}{comma_of_one}))", "int64")

    def weight(self, name: str, shape: Shape, scale: float = 1.0) -> Value:
        """A weight: a parameter of the model, or an input. `scale` keeps sums over it near 1."""
        factor = "" if scale == 1.0 else f" * {scale:.3g}"
        if self.rng.random() >= self.dials.parameters or any(isinstance(length, Dim) for length in shape):
            return self.input(name, shape, f"torch.randn({{shape}}{{dtype}}){factor}")
        sizes = [self.size(f"{name}_{axis}", length) for axis, length in zip("abcdef", shape, strict=False)]
        name = _fresh(name, {line.split()[0].removeprefix("self.") for line in self.members})
        suffix = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        self.members.append(f"self.{name} = nn.Parameter(torch.randn({', '.join(sizes)}{suffix}){factor})")
        return Value(f"self.{name}", shape, self.dtype)

    def size(self, name: str, value: int) -> str:
        """An argument of `__init__` with that value."""
        for known, other in self.sizes.items():
            if other == value and known.rstrip("0123456789") == name:
                return known
        name = _fresh(name, self.sizes)
        self.sizes[name] = value
        return name

    def module(self, name: str, kind: str, *sizes: tuple[str, int], **options: object) -> str:
        """A module of `torch.nn` in `__init__`, its sizes as arguments of `__init__`; returns `self.name`."""
        name = _fresh(name, {line.split()[0].removeprefix("self.") for line in self.members})
        words = [self.size(argument, value) for argument, value in sizes]
        words += [f"{key}={value}" for key, value in options.items()]
        if self.dtype != "float32":
            words.append(f"dtype=torch.{self.dtype}")
        self.members.append(f"self.{name} = nn.{kind}({', '.join(words)})")
        return f"self.{name}"

    def other(self, like: Value, name: str = "y") -> Value:
        """A second operand of the same type: an earlier value, or a new input."""
        same = [v for v in self.values if v.shape == like.shape and v.dtype == like.dtype and v.text != like.text]
        if same and self.rng.random() < self.dials.fan_out:
            return self.rng.choice(same)
        return self.input(name, like.shape)

    def let(self, expression: str, shape: Shape, dtype: str | None = None) -> Value:
        """A statement of `forward`: the value of an expression, by a name of its own."""
        dtype = dtype or self.dtype
        value = Value(f"v{len(self.lines) + 1}", shape, dtype)
        self.require(value.numel <= self.dials.max_elements)
        self.lines.append(f"{value} = {expression}")
        if value.floating:
            self.values.append(value)
        return value

    def copy(self) -> Graph:
        """A copy to try an operator on; it shares the generator."""
        fields: Mapping[str, object] = vars(self)
        changing = {name: type(each)(each) for name, each in fields.items() if isinstance(each, list | dict)}
        return Graph(**{**fields, **changing})  # type: ignore[arg-type]


def _fresh(name: str, taken: Sequence[str] | Mapping[str, object] | set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}{number}" for number in range(2, 1000) if f"{name}{number}" not in taken)
