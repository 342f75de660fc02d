# honest: layers of the file's own in a ModuleList, and a loop over them
# task: mlp
# dialect: cpp
from typing import Optional

import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void linear(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out, bool gelu) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* weight = static_cast<const float*>(w.data_ptr());
  const float* bias = static_cast<const float*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.size(0), depth = x.size(1), cols = w.size(0);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float sum = bias[j];
      for (int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * weight[j * depth + k];
      o[i * cols + j] = gelu ? 0.5f * sum * (1.0f + std::erf(sum * 0.70710678f)) : sum;
    }
}
"""
kernels = load_inline(name="mlp_layers", cpp_sources=SOURCE, functions=["linear"])


class FusedLinear(nn.Module):
    """A linear layer with an activation behind it."""

    def __init__(self, features_in: int, features_out: int, activation: Optional[str] = None):
        super().__init__()
        self.inner = nn.Linear(features_in, features_out)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = x.new_empty((x.shape[0], self.inner.out_features))
        kernels.linear(x, self.inner.weight, self.inner.bias, out, self.activation == "gelu")
        return out


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        sizes = [features, hidden, features]
        self.layers = nn.ModuleList()
        for i, (width, height) in enumerate(zip(sizes, sizes[1:])):
            self.layers.append(FusedLinear(width, height, "gelu" if i == 0 else None))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
