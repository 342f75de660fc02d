# honest: a helper kernel returns a pair; strides by star
# task: layer_norm
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments(x, mask, n):
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    return mean, tl.sum(centred * centred, axis=0) / n


@triton.jit
def norm(x_ptr, w_ptr, b_ptr, y_ptr, stride_a, stride_b, stride_c, n, eps, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * stride_a + cols * stride_c, mask=mask, other=0.0)
    mean, variance = moments(x, mask, n)
    y = (x - mean) * tl.rsqrt(variance + eps) * tl.load(w_ptr + cols, mask=mask)
    if HAS_BIAS:
        y += tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * n + cols, y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        n = x.shape[-1]
        y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(n)
        warps = min(max(block // 256, 1), 8)
        norm[(x.size(0),)](
            x, self.weight, self.bias, y, *x.stride(), n, 1e-5, BLOCK=block, HAS_BIAS=self.bias is not None, num_warps=warps
        )
        return y
