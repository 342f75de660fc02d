"""What a reference compares its data with, and where it makes places of values: what hidden inputs may hold.

Runs in the process of a reference, which is trusted text.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from kernelrl.executor.contest.masks import ATTENTION, LIKE_INFINITY, MASKS, WRITES, masks_by_number
from kernelrl.executor.contest.meanings import Meanings
from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of
from kernelrl.executor.contest.values import numbers_among, tensors_in

_RELATIONS = frozenset("eq ne lt le gt ge".split())
_OWN_LIMITS = {"hardsigmoid_backward": [-3.0, 3.0], "hardswish_backward": [-3.0, 3.0]}
"""Of operators that jump at numbers which they are not given."""
_COMPARES = (
    _RELATIONS
    | frozenset("clamp clamp_min clamp_max hardtanh threshold hardshrink softshrink".split())
    | frozenset("hardtanh_backward threshold_backward hardshrink_backward softshrink_backward".split())
    | _OWN_LIMITS.keys()
)
_SEARCHES = {"bucketize": 1, "searchsorted": 0}
"""Operators that find values among ascending ones, with the position of these among the arguments."""
_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")
_BAGS = ("_embedding_bag", "_embedding_bag_forward_only")
_PLACES = frozenset(
    "bucketize searchsorted histc histogram _histogramdd_from_bin_cts grid_sampler_2d grid_sampler_3d quantile "
    "_local_scalar_dense".split()
)
"""Operators that make places of values, beside conversions to integers."""
_INSIDE = ("grid_sampler_2d", "grid_sampler_3d")
"""Those that take no place outside of what they sample, whatever the value is."""
_ADDING = frozenset(
    "sum mean var std var_mean std_mean linalg_vector_norm dot mse_loss l1_loss smooth_l1_loss huber_loss "
    "native_batch_norm _native_batch_norm_legit native_layer_norm native_group_norm".split()
)
LONG = 2048
"""Terms of a sum that errs by more than usual where they are added in their order."""
_CLAMPS = frozenset("clamp clamp_min clamp_max hardtanh threshold relu softshrink hardshrink".split())
_LARGER_OR_SMALLER = ("maximum", "minimum")
_LIMITING = _CLAMPS | {*_LARGER_OR_SMALLER, "_local_scalar_dense"}
"""Operators that limit what is made of parameters, or read it, so that Python may limit it."""
_BOTH_SIDES = ("softshrink", "hardshrink", "softshrink_backward", "hardshrink_backward")
"""Their limit is one for either sign."""
_NORMS = {"embedding_renorm": (2, 3, None), "renorm": (3, 1, 2)}
"""Operators that limit the norms of slices: the places of limit, order and dimension (None: the first one)."""
_SLOPES = ("_prelu_kernel", "prelu")
_CONVERTS = ("_to_copy", "copy")
_ROUNDS = frozenset("round floor ceil trunc frac fmod remainder floor_divide".split())
_QUANTIZES = "fake_quantize"
_JUMPS = [number / 2**power for power in range(8) for number in range(-7, 8) if power == 0 or number % 2]
"""Whole numbers, halves, quarters, … near zero: what rounds or compares jumps there, scaled or not."""
MOST = 64
"""Numbers of each kind that are kept."""
GRID, LARGEST = 1024.0, 2.0**24
"""Floating-point numbers are kept that are multiples of the reciprocal of `GRID` below `LARGEST`.

Each comes where the precision of what is drawn has it, and what is computed with it is seldom rounded.
"""


class Thresholds(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes the numbers that operators compare tensors with.

    Args:
        model: the reference.
        inputs: of its call.
        ranges: from which integers are drawn, half-open.
    """

    def __init__(self, model: torch.nn.Module, inputs: Iterable[Any] = (), ranges: Iterable[Sequence[int]] = ()):
        super().__init__()
        named = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
        self._parameters = {parameter.untyped_storage()._cdata: name for name, parameter in named}
        self._made: Any = WeakIdKeyDictionary()
        """Names of the parameters that a tensor is made of, and of nothing else."""
        self._clamped: dict[str, list[float]] = {}
        self._norms: dict[str, list[float]] = {}
        self._slopes: set[str] = set()
        self._floats: set[float] = set()
        self._integers: set[int] = set()
        self._meanings = Meanings(inputs, ranges)
        self._makes_places = self._makes_indices = self._masks = False
        self._sums_long = self._rounds = self._relates = self._converts = False
        self._reads_integers = self._reads_bits = False
        self._infinities: set[float] = set()
        self._writes = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        given = [*args, *kwargs.values()]
        if name in WRITES:
            self._writes |= not all(map(math.isfinite, numbers_among(given)))
        values = next((item for item in given if isinstance(item, torch.Tensor)), None)
        if values is None:
            return result
        limits = _limits(name, func, args, kwargs) if name in _COMPARES else []
        if self._parameters:
            self._follow(name, given, values, limits, result)
        with contextlib.suppress(Exception):  # an operator that is not made for so many numbers, or for their kind
            self._meanings.follow(name, func, args, kwargs, result)
        if name in _SEARCHES:
            self._note(args[_SEARCHES[name]], args[_SEARCHES[name]].flatten()[:MOST].tolist())
        elif name in _LOSSES:
            self._integers.update(args[4:5])
        elif name in _BAGS:
            self._integers.update(args[8:9])
        elif name in _COMPARES:
            self._note(values, limits)
        elif name == "histc":  # between its bins a value is on either side by rounding
            edges = arguments_of(func, args, kwargs)
            self._note(values, [float(edges["min"]), float(edges["max"])])
        elif name in _ADDING and values.is_floating_point():
            last = result[-1] if isinstance(result, tuple) else result
            self._sums_long |= values.numel() > LONG * max(1, last.numel()) and last.numel() > 0  # or they are given
        elif name in MASKS:
            self._masks |= masks_by_number(given)
        self._masks |= name.startswith(ATTENTION)
        self._reads_integers |= name == "_local_scalar_dense" and not values.is_floating_point()
        if values.is_floating_point():
            converts = name in _CONVERTS and _is_integer(result)
            self._makes_places |= name in _PLACES or converts
            self._converts |= (name in _PLACES and name != "_local_scalar_dense") or converts
            self._makes_indices |= (name in _PLACES and name not in _INSIDE) or converts
            quantizes = name.startswith(_QUANTIZES) or kwargs.get("rounding_mode") is not None
            self._rounds |= name in _ROUNDS or converts or quantizes
            to_boolean = name in _CONVERTS and isinstance(result, torch.Tensor) and result.dtype == torch.bool
            self._relates |= name in _RELATIONS or to_boolean or name.startswith("logical_")
            self._infinities.update(filter(math.isinf, limits if name in _RELATIONS else ()))
        return result

    def leave(self, tensor: torch.Tensor, as_bits: bool) -> None:
        """What becomes of a tensor's values is not seen: places may be made of them, or, of bits, other values."""
        if as_bits:
            self._reads_bits = self._rounds = True
            return
        self._makes_places |= tensor.is_floating_point()
        self._makes_indices |= tensor.is_floating_point()
        self._reads_integers |= not tensor.is_floating_point()

    def _follow(self, name: str, given: list[Any], values: torch.Tensor, limits: Iterable[float], result: Any) -> None:
        """Note which parameters a result is made of, and those that are clamped, with the limits if it is by itself."""
        tensors = tensors_in(given)
        if name in _LARGER_OR_SMALLER:
            limits = [float(item) for item in tensors if not item.dim() and not self._made_of(item)]
            tensors = [item for item in tensors if item.dim() or self._made_of(item)]
        made = [self._made_of(item) for item in tensors]
        if name in _NORMS:
            limit, order, dim = (0 if place is None else given[place] for place in _NORMS[name])
            self._norms |= dict.fromkeys(made[0], [float(limit), float(order), dim])
        elif name in _SLOPES:
            self._slopes |= made[1]
        if not made or not all(made):
            return
        names = frozenset().union(*made)
        for item in tree_leaves(result):
            if isinstance(item, torch.Tensor):
                self._made[item] = names
        if name in _LIMITING:
            is_itself = values.untyped_storage()._cdata in self._parameters
            limits = [0.0] if name == "relu" else limits
            near = [limit for limit in limits if abs(limit) < LIKE_INFINITY] if is_itself else []
            if is_itself or name != "relu":
                self._clamped |= dict.fromkeys(names, near)

    def _made_of(self, tensor: torch.Tensor) -> frozenset[str]:
        if tensor in self._made:
            names: frozenset[str] = self._made[tensor]
            return names
        name = self._parameters.get(tensor.untyped_storage()._cdata)
        return frozenset((name,)) if name is not None else frozenset()

    def _note(self, values: torch.Tensor, numbers: Iterable[float]) -> None:
        if values.is_floating_point():
            self._floats.update(float(each) for each in numbers if abs(each) < LARGEST and each * GRID % 1 == 0)
        elif values.dtype != torch.bool:
            self._integers.update(int(each) for each in numbers if abs(each) < 2**62 and each % 1 == 0)

    def found(self) -> dict[str, Any]:
        """The numbers that floating-point values and integers are compared with, and what else is to be respected.

        `ties`: those where floating-point values may tie, among them simple ones, which may do so after arithmetic.
        `relates`: floating-point values are compared, or booleans are made of them. `infinities`: those of the two
        that they are compared with. `makes_places`: of a floating-point value an integer is made, which may be a
        place in memory. `converts`: an operator makes it, and not Python. `makes_indices`: it may be one beyond an
        end. `masks`: a mask may write a finite number that stands for infinity, or an operator applies one, so a
        program may leave out what it hides (see `masks.Enlarged`). `sums_long`: so many numbers are added that it
        matters in which order they come. `reads_integers`: Python may compare them. `reads_bits`: those of
        floating-point numbers are looked at. `writes`: infinity or NaN is written down. `compared`: the first of
        these numbers alone. `clamped`: names of parameters that are clamped, with the limits; none where something is
        that is made of them. `norms`: names of parameters of whose slices norms are limited, with the limit, the
        order of the norm and the dimension. `slopes`: names of those that are slopes below zero. `alone`: of inputs
        that are one integer, others that matter, see `meanings`.
        """
        integers = {*sorted(self._integers)[:MOST], *self._meanings.found[:MOST]}
        floats = sorted(self._floats)[:MOST]
        with_jumps = floats * max(1, len(_JUMPS) // max(1, len(floats))) + _JUMPS  # about as many of either come
        numbers = {
            "floats": with_jumps if self._rounds else floats,
            "ties": with_jumps if self._rounds or self._relates else floats,
            "integers": sorted(integers),
            "alone": sorted({*self._meanings.alone[:MOST]}),
        }
        parameters = {"clamped": self._clamped, "norms": self._norms, "slopes": sorted(self._slopes)}
        return (
            numbers
            | {"masks": self._masks, "reads_integers": self._reads_integers, "reads_bits": self._reads_bits}
            | {"relates": self._relates, "infinities": sorted(self._infinities)}
            | {
                "makes_places": self._makes_places,
                "converts": self._converts,
                "makes_indices": self._makes_indices,
                "sums_long": self._sums_long,
                "writes": self._writes,
                "compared": floats,
            }
            | parameters
        )


def _limits(name: str, func: Any, args: Any, kwargs: Any) -> list[float]:
    """The numbers that an operator compares with, those that it has without being given them too."""
    if name in _OWN_LIMITS:
        return _OWN_LIMITS[name]
    limits = list(numbers_among(arguments_of(func, args, kwargs).values()))
    return [*limits, *(-limit for limit in limits)] if name in _BOTH_SIDES else limits


def _is_integer(result: Any) -> bool:
    return isinstance(result, torch.Tensor) and not result.is_floating_point() and result.dtype != torch.bool
