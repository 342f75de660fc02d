"""Kernels for `test_programs.py`, which runs this file in Triton's interpreter: one program at a time, then in batches.

Prints a JSON object: for each case whether both left the same in memory, and how many of their numbers in the grid the
programs of a batch had to share in the end; and of some whether they do so in any order.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from kernelrl.executor.contest import bfloat16, folding, programs
from kernelrl.executor.contest import libdevice as interpreted

CASES: list[Callable[[], list[torch.Tensor]]] = []
GENERATOR = torch.Generator()


def case(function: Callable[[], list[torch.Tensor]]) -> Callable[[], list[torch.Tensor]]:
    CASES.append(function)
    return function


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR).to(dtype)


@triton.jit
def _activation(x):
    return tl.where(x > 0, x, 0.1 * x)


@triton.jit
def _elementwise(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask)
    y = tl.load(y_ptr + at, mask=mask, other=1.0).to(tl.float32)
    tl.store(out_ptr + at, _activation(x) * tl.exp(-tl.abs(y)) + scale, mask=mask)


@case
def elementwise_with_a_tail_and_a_helper() -> list[torch.Tensor]:
    x, y = random(5001), random(5001)
    out = torch.full((5100,), 7.0)
    _elementwise[(triton.cdiv(5001, 128),)](x, y, out, 5001, 0.5, BLOCK=128)
    return [out]


@case
def sixteen_bits() -> list[torch.Tensor]:
    outs = []
    for dtype in (torch.float16, torch.bfloat16):
        x, y = random(3000, dtype=dtype), random(3000, dtype=dtype)
        outs.append(torch.zeros_like(x))
        _elementwise[(24,)](x, y, outs[-1], 3000, 0.5, BLOCK=128)
    return outs


@case
def in_place() -> list[torch.Tensor]:
    x, y = random(4000), random(4000)
    _elementwise[(32,)](x, y, x, 4000, 0.5, BLOCK=128)
    return [x]


@triton.jit
def _softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + at, e / tl.sum(e, axis=0), mask=at < n)


@case
def softmax_of_rows() -> list[torch.Tensor]:
    x = random(60, 100)
    out = torch.empty_like(x)
    _softmax[(60,)](x, out, 100, 100, BLOCK=128)
    return [out]


@triton.jit
def _layer_norm(x_ptr, weight_ptr, out_ptr, mean_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total) / n
    scale = tl.rsqrt(tl.sum(squares) / n - mean * mean + 1e-5)
    tl.store(mean_ptr + row, mean)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
        weight = tl.load(weight_ptr + at, mask=at < n, other=0.0)
        tl.store(out_ptr + row * n + at, (x - mean) * scale * weight, mask=at < n)


@case
def layer_norm_in_two_passes() -> list[torch.Tensor]:
    x, weight = random(50, 200), random(200)
    out, mean = torch.empty_like(x), torch.empty(50)
    _layer_norm[(50,)](x, weight, out, mean, 200, BLOCK=64)
    return [out, mean]


@triton.jit
def _matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (columns[None, :] < N), other=0.0)
        sums = tl.dot(a, b, sums)
        a_ptrs += BK
        b_ptrs += BK * N
    c_ptrs = c_ptr + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, sums, mask=(rows[:, None] < M) & (columns[None, :] < N))


@case
def matmul_in_tiles() -> list[torch.Tensor]:
    a, b = random(90, 50), random(50, 70)
    c = torch.empty(90, 70)
    _matmul[(6, 5)](a, b, c, 90, 70, 50, BM=16, BN=16, BK=16)
    return [c]


@triton.jit
def _transpose(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[:, None] * columns + j[None, :])
    tl.store(out_ptr + j[:, None] * rows + i[None, :], tl.trans(x) + x.T)


@case
def transposed_tiles() -> list[torch.Tensor]:
    x = random(64, 80)
    out = torch.empty(80, 64)
    _transpose[(4, 5)](x, out, 64, 80, BLOCK=16)
    return [out]


@triton.jit
def _statistics(x_ptr, values_ptr, places_ptr, sums_ptr, n: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + tl.arange(0, n))
    value, place = tl.max(x, axis=0, return_indices=True)
    tl.store(values_ptr + row, value)
    tl.store(places_ptr + 2 * row, place)
    tl.store(places_ptr + 2 * row + 1, tl.argmin(x, axis=0))
    tl.store(sums_ptr + row * n + tl.arange(0, n), tl.cumsum(x, axis=0) + tl.cumsum(x, axis=0, reverse=True))
    square = tl.reshape(x, (8, n // 8))
    tl.store(values_ptr + 40 + row, tl.sum(tl.sum(square, axis=1) * tl.min(square, axis=1)))
    tl.store(values_ptr + 120 + row, tl.sum(tl.trans(square)))
    tl.store(values_ptr + 80 + row + tl.arange(0, 1), tl.sum(square, keep_dims=True).reshape(1))


@case
def reductions_and_scans() -> list[torch.Tensor]:
    x = random(40, 32)
    values, places, sums = torch.empty(160), torch.empty(80, dtype=torch.int32), torch.empty(40, 32)
    _statistics[(40,)](x, values, places, sums, n=32)
    return [values, places, sums]


@triton.jit
def _shapes(x_ptr, out_ptr, n: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, n)
    x = tl.load(x_ptr + row * n + at)
    even, odd = tl.split(tl.reshape(x, (n // 2, 2)))
    both = tl.reshape(tl.join(odd, even), (n,))
    both += tl.reshape(tl.permute(tl.reshape(x, (2, 2, n // 4)), (2, 0, 1)), (n,))
    both += tl.gather(x, (at + row) % n, axis=0)
    both += tl.reshape(tl.broadcast_to(tl.expand_dims(even, 0), (2, n // 2)), (n,))
    tl.store(out_ptr + row * n + at, both)


@case
def shapes() -> list[torch.Tensor]:
    x = random(30, 16)
    out = torch.empty_like(x)
    _shapes[(30,)](x, out, n=16)
    return [out]


@triton.jit
def _integers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    x = (x // 3) ^ (x % 5) + (x << 2) - (x >> 1)
    x += tl.cdiv(x, 7) + tl.minimum(x, 3) + (tl.rand(n, at) * 100).to(tl.int32)
    tl.store(out_ptr + at, tl.where((x > 3) & (x < 1000), x, -x))


@case
def integers_and_random_numbers() -> list[torch.Tensor]:
    x = torch.randint(-1000, 1000, (640,), generator=GENERATOR, dtype=torch.int32)
    out = torch.empty_like(x)
    _integers[(20,)](x, out, 640, BLOCK=32)
    return [out]


@triton.jit
def _histogram_by_atomics(x_ptr, counts_ptr, total_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.atomic_add(counts_ptr + (tl.abs(x) * 4).to(tl.int32), x, mask=at < n)
    tl.atomic_add(total_ptr, 1)


@case
def atomic_sums() -> list[torch.Tensor]:
    x = random(1000)
    counts, total = torch.zeros(64), torch.zeros(1, dtype=torch.int32)
    _histogram_by_atomics[(32,)](x, counts, total, 1000, BLOCK=32)
    return [counts, total]


@triton.jit
def _same_place(x_ptr, out_ptr, flag, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if flag > 0:
        x = -x
    tl.store(out_ptr + tl.arange(0, BLOCK) % 4, x)


@case
def the_last_one_that_writes_wins() -> list[torch.Tensor]:
    x, out = random(320), torch.zeros(4)
    _same_place[(20,)](x, out, 1, BLOCK=16)
    return [out]


@triton.jit
def _branch(x_ptr, out_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    at = number * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x)
    if number % 3 == 0:
        tl.store(out_ptr + at, x * 2)


@case
def apart_a_branch_on_the_number() -> list[torch.Tensor]:
    x = random(320)
    out = torch.zeros(320)
    _branch[(20,)](x, out, BLOCK=16)
    return [out]


@triton.jit
def _loop(x_ptr, out_ptr):
    number = tl.program_id(0)
    total = 0.0
    for at in range(number):
        total += tl.load(x_ptr + at)
    tl.store(out_ptr + number, total)


@case
def apart_a_loop_of_different_lengths() -> list[torch.Tensor]:
    x, out = random(20), torch.zeros(20)
    _loop[(20,)](x, out)
    return [out]


@triton.jit
def _causal(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    number, head = tl.program_id(0), tl.program_id(1)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for block in range(0, number + 1):
        total += tl.load(x_ptr + head * n + block * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr + head * n + number * BLOCK + tl.arange(0, BLOCK), total)


@case
def by_rows_of_the_grid() -> list[torch.Tensor]:
    x = random(6, 160)
    out = torch.zeros(6, 160)
    _causal[(10, 6)](x, out, 160, BLOCK=16)
    return [out]


@triton.jit
def _neighbour(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at + 1, tl.load(x_ptr + at) + 1)


@case
def apart_each_reads_what_the_last_one_wrote() -> list[torch.Tensor]:
    x = random(400)
    _neighbour[(20,)](x, BLOCK=16)
    return [x]


@triton.jit
def _neighbours_later(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))
    before = tl.load(out_ptr + at - 1, mask=at > 0, other=0.0)
    tl.store(out_ptr + at, before * 0.5)


@case
def apart_a_read_of_what_another_has_written() -> list[torch.Tensor]:
    x, out = random(320), torch.zeros(320)
    _neighbours_later[(20,)](x, out, BLOCK=16)
    return [out]


@triton.jit
def _twice(x_ptr, out_ptr):
    number = tl.program_id(0)
    tl.store(out_ptr + number, 1.0)
    tl.store(out_ptr + number // 2, tl.load(x_ptr + number))


@case
def apart_two_writes_to_one_place() -> list[torch.Tensor]:
    x, out = random(20), torch.zeros(20)
    _twice[(20,)](x, out)
    return [out]


@triton.jit
def _merge(mean, square, count, other_mean, other_square, other_count):
    total = count + other_count
    step = other_mean - mean
    share = other_count / total
    return mean + step * share, square + other_square + step * step * count * share, total


@triton.jit
def _decay(factor, value, other_factor, other_value):
    return factor * other_factor, value * other_factor + other_value


@triton.jit
def _own_reductions(x_ptr, means_ptr, squares_ptr, states_ptr, n: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, n)
    x = tl.load(x_ptr + row * n + at)
    zero, one = tl.zeros_like(x), tl.full((n,), 1.0, tl.float32)
    mean, square, _ = tl.reduce((x, zero, one), 0, _merge)
    tl.store(means_ptr + row, mean)
    tl.store(squares_ptr + row, square)
    square_x, flat = tl.reshape(x, (4, n // 4)), tl.full((4, n // 4), 1.0, tl.float32)
    means, _, _ = tl.reduce((square_x, flat * 0, flat), 1, _merge)
    tl.store(means_ptr + 20 + row, tl.sum(means) / 4)
    all_means, _, _ = tl.reduce((square_x, flat * 0, flat), None, _merge)
    tl.store(means_ptr + 40 + row, all_means)
    kept, _, _ = tl.reduce((square_x, flat * 0, flat), 0, _merge, keep_dims=True)
    tl.store(means_ptr + 60 + row, tl.sum(kept) / (n // 4))
    _, states = tl.associative_scan((one * 0.5, x), 0, _decay)
    tl.store(states_ptr + row * n + at, states)
    _, states = tl.associative_scan((one * 0.5, x), 0, _decay, reverse=True)
    tl.store(states_ptr + (20 + row) * n + at, states)


@case
def reductions_and_scans_of_its_own() -> list[torch.Tensor]:
    x = random(20, 16)
    means, squares, states = torch.zeros(4, 20), torch.zeros(20), torch.zeros(40, 16)
    _own_reductions[(20,)](x, means, squares, states, n=16)
    return [means, squares, states]


@triton.jit
def _fails_late(x_ptr, BLOCK: tl.constexpr):
    number = tl.program_id(0)
    at = number * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) * 2)
    if number == 7:
        tl.static_assert(False)


@case
def apart_one_program_fails() -> list[torch.Tensor]:
    x = random(320)
    try:
        _fails_late[(20,)](x, BLOCK=16)
    except Exception as error:
        x = torch.cat([x, torch.tensor([float(len(type(error).__name__))])])
    return [x]


@triton.jit
def _carry(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(out_ptr + tl.program_id(0) * BLOCK - 1, mask=tl.program_id(0) > 0, other=0.0)
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at)) + before)


@triton.jit
def _lost_update(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x))


@triton.jit
def _ticket(x_ptr, out_ptr, counter_ptr, BLOCK: tl.constexpr):
    while tl.atomic_add(counter_ptr, 0) < tl.program_id(0):
        pass
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(out_ptr + tl.program_id(0) * BLOCK - 1, mask=tl.program_id(0) > 0, other=0.0)
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at)) + before)
    tl.atomic_add(counter_ptr, 1)


def race_of_a_carry() -> list[torch.Tensor]:
    x, out = random(320), torch.full((320,), 3.0)
    _carry[(20,)](x, out, BLOCK=16)
    return [out]


def race_of_an_update() -> list[torch.Tensor]:
    x, out = random(320), torch.zeros(1)
    _lost_update[(20,)](x, out, BLOCK=16)
    return [out]


@triton.jit
def _update_apart(x_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) % 2 == 0:
        x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    else:
        x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * 2.0
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(x))


def race_of_programs_that_part() -> list[torch.Tensor]:
    x, out = random(320), torch.zeros(1)
    _update_apart[(20,)](x, out, BLOCK=16)
    return [out]


def in_turn_by_a_ticket() -> list[torch.Tensor]:
    x, out = random(320), torch.full((320,), 3.0)
    _ticket[(20,)](x, out, torch.zeros(1, dtype=torch.int32), BLOCK=16)
    return [out]


@case
def matmul_of_bfloat16() -> list[torch.Tensor]:
    a, b = random(90, 50, dtype=torch.bfloat16), random(50, 70, dtype=torch.bfloat16)
    c = torch.empty(90, 70)
    _matmul[(6, 5)](a, b, c, 90, 70, 50, BM=16, BN=16, BK=16)
    return [c]


@triton.jit
def _arithmetic(x_ptr, out_ptr, total_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.where(x > 0, x * 3, -x) + x * x
    tl.store(out_ptr + at, tl.maximum(y, 0.5).to(tl.bfloat16))
    tl.store(total_ptr + tl.program_id(0), tl.max(x, axis=0))


@case
def arithmetic_on_bfloat16() -> list[torch.Tensor]:
    x = random(256, dtype=torch.bfloat16)
    out, total = torch.empty_like(x), torch.empty(4, dtype=torch.bfloat16)
    _arithmetic[(4,)](x, out, total, BLOCK=64)
    return [out, total]


@triton.jit
def _device_functions(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    positive = libdevice.abs(x) + 0.5
    tl.store(out_ptr + at, libdevice.tanh(x))
    tl.store(out_ptr + n + at, libdevice.pow(positive, 1.5))
    tl.store(out_ptr + 2 * n + at, tl.extra.cuda.libdevice.expm1(x))
    tl.store(out_ptr + 3 * n + at, libdevice.log1p(positive) + libdevice.rsqrt(positive))
    tl.store(out_ptr + 4 * n + at, libdevice.erf(x) + libdevice.erfc(x) + libdevice.normcdf(x))
    tl.store(out_ptr + 5 * n + at, libdevice.sin(x) * libdevice.floor(x) + libdevice.ceil(x))
    tl.store(out_ptr + 6 * n + at, libdevice.fma(x, x, positive) + libdevice.pow(x, 2))
    tl.store(out_ptr + 7 * n + at, tl.where(libdevice.isnan(x), 0.0, libdevice.rint(x) + libdevice.round(x)))


@case
def device_functions() -> list[torch.Tensor]:
    x, out = random(256) * 3, torch.empty(8, 256)
    _device_functions[(8,)](x, out, 256, BLOCK=32)
    return [out]


def what_torch_has() -> dict[str, list[torch.Tensor]]:
    """The same by PyTorch's operators."""
    GENERATOR.manual_seed(0)
    product = random(90, 50, dtype=torch.bfloat16).float() @ random(50, 70, dtype=torch.bfloat16).float()
    GENERATOR.manual_seed(0)
    x = random(256, dtype=torch.bfloat16)
    y = torch.where(x > 0, x * 3, -x) + x * x
    GENERATOR.manual_seed(0)
    z = random(256) * 3
    positive = z.abs() + 0.5
    functions = [z.tanh(), positive.pow(1.5), z.expm1(), positive.log1p() + positive.rsqrt()]
    functions += [1 + torch.special.ndtr(z), z.sin() * z.floor() + z.ceil(), 2 * z * z + positive, 2 * z.round()]
    GENERATOR.manual_seed(0)
    rows = random(20, 16)
    ahead, behind = [rows[:, :1]], [rows[:, -1:]]
    for at in range(1, 16):
        ahead.append(ahead[-1] / 2 + rows[:, at : at + 1])
        behind.append(behind[-1] / 2 + rows[:, 15 - at : 16 - at])
    states = torch.cat((torch.cat(ahead, 1), torch.cat(behind[::-1], 1)))
    deviations = (rows - rows.mean(1, keepdim=True)).square().sum(1)
    return {
        "reductions_and_scans_of_its_own": [rows.mean(1).expand(4, 20), deviations, states],
        "matmul_of_bfloat16": [product],
        "arithmetic_on_bfloat16": [y.clamp_min(0.5), x.view(4, 64).amax(1)],
        "device_functions": [torch.stack(functions)],
    }


DISORDERED = (race_of_a_carry, race_of_an_update, race_of_programs_that_part, in_turn_by_a_ticket)
DISORDERED += softmax_of_rows, matmul_in_tiles, atomic_sums


def run(function: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    GENERATOR.manual_seed(0)
    return function()


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(
        a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for a, b in zip(one, other, strict=True)
    )


def main() -> None:
    bfloat16.install()
    interpreted.install()
    folding.install()
    expected = [run(function) for function in CASES]
    disordered = [run(function) for function in DISORDERED]
    programs.install()
    found = {}
    for function, wanted in zip(CASES, expected, strict=True):
        programs._EXPERIENCE.clear()
        equal = [same(run(function), wanted) for _ in range(4)]
        found[function.__name__] = {
            "equal": all(equal),
            "shared": max((each.shared for each in programs._EXPERIENCE.values()), default=None),
        }
    for function, wanted in zip(DISORDERED, disordered, strict=True):
        programs.install()
        run(function)  # the first launch shows whether a kernel is atomic
        programs.install(in_any_order=lambda: True)
        left = run(function)
        found[f"disordered {function.__name__}"] = all(map(torch.allclose, left, wanted))
    results = dict(zip((function.__name__ for function in CASES), expected, strict=True))
    for name, right in what_torch_has().items():
        near = [torch.allclose(*pair, rtol=1e-5, atol=1e-5) for pair in zip(results[name], right, strict=True)]
        found[f"right {name}"] = all(near)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
