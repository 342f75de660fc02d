# honest: functions of libdevice; a grid that is a list
# task: expm1_tanh
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn
from triton.language.extra import libdevice


@triton.jit
def device_functions(x_ptr, first_ptr, second_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(first_ptr + at, libdevice.expm1(x), mask=at < n)
    tl.store(second_ptr + at, tl.extra.cuda.libdevice.tanh(x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        first, second = torch.empty_like(x), torch.empty_like(x)
        grid = lambda meta: [triton.cdiv(x.numel(), meta["BLOCK"])]  # noqa: E731
        device_functions[grid](x, first, second, x.numel(), BLOCK=1024)
        return first, second
