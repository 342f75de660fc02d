# honest: running statistics of copied layers, read as they are
# task: copied_batch_norms
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>
#include <vector>

template <typename T>
static T* at(tvm::ffi::TensorView t) { return static_cast<T*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView gain,
            tvm::ffi::TensorView shift, tvm::ffi::TensorView mean, tvm::ffi::TensorView var, tvm::ffi::TensorView out) {
  const int64_t n = w.size(0);
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t j = 0; j < n; ++j) {
      float y = at<float>(b)[j];
      for (int64_t k = 0; k < n; ++k) y += at<float>(x)[r * n + k] * at<float>(w)[j * n + k];
      at<float>(out)[r * n + j] = std::tanh((y - at<float>(mean)[j]) / std::sqrt(at<float>(var)[j] + 1e-5f) * at<float>(gain)[j] + at<float>(shift)[j]);
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32)) for _ in range(2)])
        self.eval()

    def forward(self, x):
        for linear, norm in self.blocks:
            out = torch.empty_like(x)
            mod.kernel(x, linear.weight, linear.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var, out)
            x = out
        return x
