# honest: atomic additions to what is zero again after each configuration that is tried
# task: total_64
# dialect: triton
import torch
from torch import nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"], reset_to_zero=["out_ptr"])
@triton.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(())
        total[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
