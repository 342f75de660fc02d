# honest: names of triton are imported one by one
# task: huber
# dialect: triton
import torch
from torch import Tensor, nn
from triton import cdiv, jit, language as tl
from triton.language import constexpr, math as tlm


@jit
def partial_sums(p_ptr, t_ptr, out_ptr, n, delta, BLOCK: constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    d = tlm.abs(tl.load(p_ptr + i, mask=mask, other=0.0) - tl.load(t_ptr + i, mask=mask, other=0.0))
    loss = tl.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))
    tl.store(out_ptr + pid, tl.sum(tl.where(mask, loss, 0.0), axis=0))


@jit
def total(parts_ptr, out_ptr, n, parts, BLOCK: constexpr):
    i = tl.arange(0, BLOCK)
    sums = tl.load(parts_ptr + i, mask=i < parts, other=0.0)
    tl.store(out_ptr, tl.sum(sums, axis=0) / n)


class ModelNew(nn.Module):
    def __init__(self, delta: float = 1.0):
        super().__init__()
        self.delta = delta

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        n = prediction.numel()
        programs = cdiv(n, 1024)
        parts, out = prediction.new_empty(programs), prediction.new_empty(())
        partial_sums[(programs,)](prediction, target, parts, n, self.delta, BLOCK=1024)
        total[(1,)](parts, out, n, programs, BLOCK=16)
        return out
