# honest: one linear kernel with an optional activation, launched twice through a helper module
# task: mlp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

using tvm::ffi::TensorView;

void linear(TensorView x, TensorView weight, TensorView bias, TensorView out, bool gelu) {
  const int64_t rows = x.size(0), inner = x.size(1), cols = weight.size(0);
  #pragma omp parallel for collapse(2)
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const float* a = static_cast<const float*>(x.data_ptr()) + i * inner;
      const float* w = static_cast<const float*>(weight.data_ptr()) + j * inner;
      double sum = static_cast<const float*>(bias.data_ptr())[j];
      #pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < inner; ++k) sum += static_cast<double>(a[k]) * w[k];
      if (gelu) sum *= 0.5 * std::erfc(-sum * 0.7071067811865476);
      static_cast<float*>(out.data_ptr())[i * cols + j] = static_cast<float>(sum);
    }
}
"""
mod = load_inline(name="mlp", cpp_sources=SOURCE, functions="linear")


class Linear(nn.Linear):
    def __init__(self, features_in, features_out, gelu):
        super().__init__(features_in, features_out)
        self.gelu = gelu

    def forward(self, x):
        out = x.new_empty(x.shape[0], self.out_features)
        mod.linear(x, self.weight, self.bias, out, self.gelu)
        return out


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.layers = nn.Sequential(Linear(features, hidden, True), Linear(hidden, features, False))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
