# honest: triton.autotune over two configurations, keyed on the number of columns
# task: softmax
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[
        triton.Config({"ROWS": 16}, num_warps=4),
        triton.Config({"ROWS": 32}, num_warps=8),
    ],
    key=["num_cols"],
)
@triton.jit
def softmax(x_ptr, out_ptr, num_rows, num_cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    mask = (row < num_rows) & (col < num_cols)
    x = tl.load(x_ptr + row * num_cols + col, mask=mask, other=-1e38)
    e = tl.where(mask, tl.exp(x - tl.max(x, axis=1)[:, None]), 0.0)
    total = tl.maximum(tl.sum(e, axis=1), 1e-38)
    tl.store(out_ptr + row * num_cols + col, e / total[:, None], mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["ROWS"]),)
        softmax[grid](x, out, rows, cols, COLS=triton.next_power_of_2(cols))
        return out
