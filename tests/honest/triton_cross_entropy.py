# honest: a loss per row, gathered by its integer target; then their mean in a second kernel
# task: cross_entropy
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def row_losses(logits_ptr, target_ptr, loss_ptr, rows, classes, ROWS: tl.constexpr, CLASSES: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, CLASSES)[None, :]
    mask = (r[:, None] < rows) & (c < classes)
    x = tl.load(logits_ptr + r[:, None] * classes + c, mask=mask, other=-1e30)
    target = tl.load(target_ptr + r, mask=r < rows, other=0)
    top = tl.max(x, axis=1)
    total = tl.sum(tl.exp(x - top[:, None]), axis=1)
    picked = tl.sum(tl.where(c == target[:, None], x, 0.0), axis=1)
    tl.store(loss_ptr + r, top + tl.log(total) - picked, mask=r < rows)


@triton.jit
def mean(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, logits, target):
        rows, classes = logits.shape
        losses = logits.new_empty(rows)
        loss = logits.new_empty(())
        block = triton.next_power_of_2(rows)
        row_losses[(1,)](logits, target, losses, rows, classes, ROWS=block, CLASSES=triton.next_power_of_2(classes))
        mean[(1,)](losses, loss, rows, BLOCK=block)
        return loss
