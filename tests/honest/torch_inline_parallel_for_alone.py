# honest: at::parallel_for on a task without parameters
# task: relu_scale
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <ATen/Parallel.h>

torch::Tensor relu_scale(torch::Tensor x) {
  auto out = at::empty_like(x);
  const float* a = x.data_ptr<float>();
  float* o = out.data_ptr<float>();
  at::parallel_for(0, x.numel(), 2048, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) o[i] = a[i] > 0 ? 2 * a[i] : 0;
  });
  return out;
}
"""
extension = load_inline(name="relu_scale", cpp_sources=SOURCE, functions=["relu_scale"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.relu_scale(x)
