# honest: a module compiled for each size, kept by lru_cache
# task: row_sums
# dialect: cpp
import functools

import torch
from torch import nn
from tvm_ffi.cpp import load_inline

TEMPLATE = r"""
void sums(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  constexpr int64_t N = @N@;
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < N; ++j) sum += a[i * N + j];
    o[i] = sum;
  }
}
"""


@functools.lru_cache(maxsize=8)
def build(n: int):
    return load_inline(name=f"sums_{n}", cpp_sources=TEMPLATE.replace("@N@", str(n)), functions="sums")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        build(4096)

    def forward(self, x):
        out = torch.empty(x.shape[:-1])
        build(x.shape[-1]).sums(x.contiguous(), out)
        return out
