"""Operators that move elements without changing them: views, indexing, padding, concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelrl.data.teachers.template.expr import ONE, ZERO, Expr, both, where, wrap
from kernelrl.data.teachers.template.loops import Buffer, Index, Program, Shape, Stage, Tensor, make_loops, stored
from kernelrl.data.teachers.template.lowerings import Form, lowers


@lowers("view.default")
def view(program: Program, form: Form, x: Tensor, shape: Sequence[object]) -> Tensor:
    """The same elements in order: an index that splits axes, or the same memory with another shape."""
    parts = None if x.buffer is not None else _split_axes(x.shape, form.shape)
    if parts is None:
        buffer = program.realise(x).buffer
        assert buffer is not None
        return stored(Buffer(buffer.name, form.shape, buffer.dtype, buffer.text))

    def read(at: Index) -> Expr:
        old = []
        for part in parts:
            position = ZERO
            for axis in part:
                position = position * form.shape[axis] + at[axis]
            old.append(position)
        return x.read(tuple(old))

    return Tensor(form.shape, form.dtype, read)


def _split_axes(old: Shape, new: Shape) -> list[list[int]] | None:
    """The new axes that each old axis is split into; None: axes are merged."""
    parts: list[list[int]] = []
    axis = 0
    for length in old:
        part: list[int] = []
        total = ONE
        while axis < len(new) and (total != length or (new[axis] == ONE and length == ONE and not part)):
            total = new[axis] * total
            part.append(axis)
            axis += 1
            if total == length:
                break
        if total != length:
            return None
        parts.append(part)
    return parts if all(length == ONE for length in new[axis:]) else None


@lowers("permute.default")
def permute(program: Program, form: Form, x: Tensor, axes: Sequence[int]) -> Tensor:
    source = [axes.index(axis) for axis in range(len(axes))]
    return Tensor(form.shape, form.dtype, lambda at: x.read(tuple(at[axis] for axis in source)))


@lowers("expand.default")
def expand(program: Program, form: Form, x: Tensor, shape: Sequence[object], **options: object) -> Tensor:
    return x if x.shape == form.shape else Tensor(form.shape, form.dtype, x.at)


@lowers("unsqueeze.default")
def unsqueeze(program: Program, form: Form, x: Tensor, dim: int) -> Tensor:
    dim %= len(form.shape)
    return Tensor(form.shape, form.dtype, lambda at: x.read((*at[:dim], *at[dim + 1 :])))


@lowers("squeeze.dims")
def squeeze(program: Program, form: Form, x: Tensor, dims: Sequence[int]) -> Tensor:
    gone = {dim % len(x.shape) for dim in dims if x.shape[dim] == ONE}

    def read(at: Index) -> Expr:
        rest = iter(at)
        return x.read(tuple(ZERO if axis in gone else next(rest) for axis in range(len(x.shape))))

    return Tensor(form.shape, form.dtype, read)


@lowers("slice.Tensor")
def slice_(
    program: Program, form: Form, x: Tensor, dim: int = 0, start: Any = 0, end: Any = None, step: int = 1
) -> Tensor:
    if not isinstance(start or 0, int) or (start or 0) < 0:
        start = x.shape[dim] + wrap(start)
    first = start or 0

    def read(at: Index) -> Expr:
        return x.read((*at[:dim], at[dim] * step + first, *at[dim + 1 :]))

    return Tensor(form.shape, form.dtype, read) if x.shape != form.shape else x


@lowers("split_with_sizes.default")
def split(program: Program, form: Form, x: Tensor, sizes: Sequence[Any], dim: int = 0) -> tuple[Tensor, ...]:
    dim %= len(x.shape)
    starts = [wrap(0)]
    for length in sizes:
        starts.append(starts[-1] + length)

    def part(start: Expr, length: Any) -> Tensor:
        shape = (*x.shape[:dim], wrap(length), *x.shape[dim + 1 :])
        return Tensor(shape, x.dtype, lambda at: x.read((*at[:dim], at[dim] + start, *at[dim + 1 :])))

    return tuple(part(start, length) for start, length in zip(starts, sizes, strict=False))


@lowers("select.int")
def select(program: Program, form: Form, x: Tensor, dim: int, position: int) -> Tensor:
    at_dim = wrap(position) if position >= 0 else x.shape[dim] + position
    return Tensor(form.shape, form.dtype, lambda at: x.read((*at[:dim], at_dim, *at[dim:])))


@lowers("flip.default")
def flip(program: Program, form: Form, x: Tensor, dims: Sequence[int]) -> Tensor:
    flipped = {dim % len(x.shape) for dim in dims}

    def read(at: Index) -> Expr:
        return x.read(tuple(x.shape[a] - 1 - i if a in flipped else i for a, i in enumerate(at)))

    return Tensor(form.shape, form.dtype, read)


@lowers("cat.default")
def cat(program: Program, form: Form, parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    dim %= len(form.shape)
    buffer = program.allocate(form.shape, form.dtype)
    start = ZERO
    for part in parts:
        program.write(buffer, part, tuple(start if axis == dim else ZERO for axis in range(len(form.shape))))
        start = start + part.shape[dim]
    return stored(buffer)


def padded(program: Program, x: Tensor, before: Sequence[int], after: Sequence[int], value: float) -> Tensor:
    """`x` with that many elements of `value` around its last axes (in their order)."""
    if not any((*before, *after)):
        return x
    buffer = program.realise(x).buffer
    assert buffer is not None
    kept = len(x.shape) - len(before)
    shape = (*x.shape[:kept], *(n + b + a for n, b, a in zip(x.shape[kept:], before, after, strict=True)))

    def read(at: Index) -> Expr:
        own = [i - b for i, b in zip(at[kept:], before, strict=True)]
        mask = None
        for i, n, b, a in zip(own, x.shape[kept:], before, after, strict=True):
            for needed, inside in ((b, i >= 0), (a, i < n)):
                if needed:
                    mask = inside if mask is None else both(mask, inside)
        assert mask is not None
        return buffer.masked_load((*at[:kept], *own), mask, value)

    return Tensor(shape, x.dtype, read)


@lowers("constant_pad_nd.default")
def constant_pad(program: Program, form: Form, x: Tensor, widths: Sequence[int], value: float = 0.0) -> Tensor:
    if min(widths) < 0:
        raise NotImplementedError("negative padding")
    return padded(program, x, widths[-2::-2], widths[::-2], value)


def _position(index: Expr, length: Expr) -> Expr:
    """An index that may count from the end."""
    return where(index < 0, index + length, index) if index.op in ("load", "masked_load") else index


@lowers("index.Tensor")
def take(program: Program, form: Form, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The axes that are indexed give way to the indices' own, at the place of the first, or in front."""
    chosen = [axis for axis, each in enumerate(indices) if each is not None]
    rank = max(len(each.shape) for each in indices if each is not None)
    together = chosen == list(range(chosen[0], chosen[-1] + 1))
    first = chosen[0] if together else 0
    if any(each is not None and each.kind == "bool" for each in indices):
        raise NotImplementedError("indexing by a mask")

    def read(at: Index) -> Expr:
        inner, rest = at[first : first + rank], iter((*at[:first], *at[first + rank :]))
        own = []
        for axis, length in enumerate(x.shape):
            each = indices[axis] if axis < len(indices) else None
            own.append(next(rest) if each is None else _position(each.at(inner), length))
        return x.read(tuple(own))

    program.realise(x)
    return Tensor(form.shape, form.dtype, read)


@lowers("embedding.default")
def embedding(program: Program, form: Form, table: Tensor, index: Tensor, *options: object) -> Tensor:
    rank = len(index.shape)
    return Tensor(form.shape, form.dtype, lambda at: table.read((index.read(at[:rank]), *at[rank:])))


@lowers("index_select.default")
def index_select(program: Program, form: Form, x: Tensor, dim: int, index: Tensor) -> Tensor:
    program.realise(x)
    return Tensor(form.shape, form.dtype, lambda at: x.read((*at[:dim], index.read((at[dim],)), *at[dim + 1 :])))


@lowers("gather.default")
def gather(program: Program, form: Form, x: Tensor, dim: int, index: Tensor, **options: object) -> Tensor:
    program.realise(x)
    dim %= len(x.shape)
    return Tensor(form.shape, form.dtype, lambda at: x.read((*at[:dim], index.read(at), *at[dim + 1 :])))


@lowers("scatter_add.default")
def scatter_add(program: Program, form: Form, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    dim %= len(x.shape)
    return _scatter(program, form, x, index.shape, source, dim, lambda at: index.read(at))


@lowers("index_put.default")
def index_put(
    program: Program, form: Form, x: Tensor, indices: Sequence[Tensor | None], source: Tensor, accumulate: bool = False
) -> Tensor:
    chosen = [axis for axis, each in enumerate(indices) if each is not None]
    if not accumulate or len(chosen) != 1 or len(source.shape) != len(x.shape):
        raise NotImplementedError("index_put that does not add along one axis")
    (dim,) = chosen
    index = indices[dim]
    assert index is not None and len(index.shape) == 1
    return _scatter(program, form, x, source.shape, source, dim, lambda at: index.read((at[dim],)))


def _scatter(program: Program, form: Form, x: Tensor, shape: Shape, source: Tensor, dim: int, index: Any) -> Tensor:
    """A copy of `x`, to which `source` is added; axis `dim` is written at an index, and made the innermost loop."""
    buffer = program.allocate(form.shape, form.dtype)
    program.write(buffer, x)
    loops = make_loops(shape)
    own = tuple(i for i, _ in loops)
    at = (*own[:dim], _position(index(own), x.shape[dim]), *own[dim + 1 :])
    ordered = (*loops[:dim], *loops[dim + 1 :])
    program.add(Stage("scatter", buffer, ordered, source.read(own), at, (loops[dim],), "sum"))
    return stored(buffer)
