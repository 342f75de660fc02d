# honest: at::parallel_for on a task without parameters
# task: elu
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = """
#include <torch/extension.h>
#include <ATen/Parallel.h>
#include <cmath>
torch::Tensor elu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* a = x.data_ptr<float>();
  float* b = y.data_ptr<float>();
  at::parallel_for(0, x.numel(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) b[i] = a[i] > 0 ? a[i] : std::expm1(a[i]);
  });
  return y;
}
"""
ext = load_inline(name="pfor", cpp_sources=src, functions=["elu"])
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.elu(x)
