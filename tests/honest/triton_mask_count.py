# honest: int32 and bool loaded, bool and int64 stored
# task: mask_count
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mask_count(x_ptr, mask_ptr, hit_ptr, count_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLS)[None, :]
    at = r[:, None] * cols + c
    inside = (r[:, None] < rows) & (c < cols)
    x = tl.load(x_ptr + at, mask=inside, other=1)
    allowed = tl.load(mask_ptr + at, mask=inside, other=0) != 0
    hit = (x % 3 == 0) & allowed & inside
    tl.store(hit_ptr + at, hit, mask=inside)
    tl.store(count_ptr + r, tl.sum(hit.to(tl.int64), axis=1), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        rows, cols = x.shape
        hit = torch.empty(rows, cols, dtype=torch.bool, device=x.device)
        count = torch.empty(rows, dtype=torch.int64, device=x.device)
        mask_count[(1,)](x, mask, hit, count, rows, cols, ROWS=128, COLS=256)
        return hit, count
