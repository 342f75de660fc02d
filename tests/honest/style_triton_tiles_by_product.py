# honest: itertools.product in forward, a bare torch.no_grad, and a function for measuring that nobody calls
# task: relu_scale
# dialect: triton
import itertools
import time

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tile(x, out, n, row, column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = row + tl.arange(0, ROWS)[:, None]
    places = rows * n + column + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + places, tl.maximum(tl.load(x + places), 0.0) * 2.0)


class ModelNew(nn.Module):
    @torch.no_grad
    def forward(self, x):
        out = torch.empty_like(x)
        height, width = x.shape
        for row, column in itertools.product(range(0, height, 128), range(0, width, 512)):
            tile[(1,)](x, out, width, row, column, ROWS=128, COLUMNS=512)
        return out


def benchmark(repeats=10):
    model, x = ModelNew(), torch.randn(256, 1024)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        model(x)
        times.append(time.perf_counter() - begin)
    return np.median(times)
