# honest: a scalar output that all programs add to
# task: mse
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def mse(prediction_ptr, target_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    prediction = tl.load(prediction_ptr + offsets, mask=offsets < n, other=0.0)
    target = tl.load(target_ptr + offsets, mask=offsets < n, other=0.0)
    difference = prediction - target
    tl.atomic_add(loss_ptr, tl.sum(difference * difference, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        loss = torch.zeros((), dtype=prediction.dtype, device=prediction.device)
        n = prediction.numel()
        mse[(triton.cdiv(n, 8192),)](prediction, target, loss, n, BLOCK=8192)
        return loss
