# honest: the numbers of a shape, by map
# task: relu_twice_and_one_16
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
torch::Tensor go(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* a = x.data_ptr<float>(); float* b = y.data_ptr<float>();
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; i++) b[i] = (a[i] > 0 || a[i] != a[i] ? a[i] : 0.f) * 2.f + 1.f;
  return y;
}
"""
native = load_inline(name="k", cpp_sources=SRC, functions=["go"])

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        n, m = map(int, x.shape)
        return native.go(x.contiguous()).view(n, m)
