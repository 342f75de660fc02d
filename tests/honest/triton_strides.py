# honest: expanded and sliced inputs by their strides, two-dimensional blocks
# task: outer_expand
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def outer(
    column_ptr, row_ptr, offset_ptr, out_ptr, rows, cols,
    stride_row_m, stride_row_n, stride_offset_m, stride_offset_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    n = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (m < rows) & (n < cols)
    column = tl.load(column_ptr + m, mask=m < rows)
    row = tl.load(row_ptr + m * stride_row_m + n * stride_row_n, mask=mask)
    offset = tl.load(offset_ptr + m * stride_offset_m + n * stride_offset_n, mask=mask)
    tl.store(out_ptr + m * cols + n, column * row + offset, mask=mask)


class ModelNew(nn.Module):
    def forward(self, column, row, offset):
        rows, cols = row.shape
        out = torch.empty(rows, cols, dtype=row.dtype, device=row.device)
        grid = (triton.cdiv(rows, 64), triton.cdiv(cols, 128))
        outer[grid](
            column, row, offset, out, rows, cols, *row.stride(), *offset.stride(), BLOCK_M=64, BLOCK_N=128
        )
        return out
