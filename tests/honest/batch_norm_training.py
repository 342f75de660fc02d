# honest: batch statistics, with the running ones kept
# task: batch_norm_training
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>

static float* f(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView gain, tvm::ffi::TensorView shift, tvm::ffi::TensorView mean,
          tvm::ffi::TensorView var, tvm::ffi::TensorView count, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t c = 0; c < n; ++c) {
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < rows; ++r) sum += f(x)[r * n + c];
    const double m = sum / rows;
    for (int64_t r = 0; r < rows; ++r) squares += (f(x)[r * n + c] - m) * (f(x)[r * n + c] - m);
    const double inverse = 1.0 / std::sqrt(squares / rows + 1e-5);
    for (int64_t r = 0; r < rows; ++r)
      f(out)[r * n + c] = static_cast<float>((f(x)[r * n + c] - m) * inverse * f(gain)[c] + f(shift)[c]);
    f(mean)[c] = static_cast<float>(0.9 * f(mean)[c] + 0.1 * m);
    f(var)[c] = static_cast<float>(0.9 * f(var)[c] + 0.1 * squares / (rows - 1));
  }
  ++*static_cast<int64_t*>(count.data_ptr());
}
"""
mod = load_inline(name="norm", cpp_sources=SOURCE, functions="norm")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        norm = self.norm
        out = torch.empty_like(x)
        mod.norm(x, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.num_batches_tracked, out)
        return out
