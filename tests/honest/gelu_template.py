# honest: a template that maps a lambda over two tensors
# task: gelu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

template <typename T, typename Function>
void map(tvm::ffi::TensorView from, tvm::ffi::TensorView to, Function&& function) {
  const T* a = static_cast<const T*>(from.data_ptr());
  T* b = static_cast<T*>(to.data_ptr());
  for (int64_t i = 0, n = from.numel(); i < n; ++i) b[i] = function(a[i]);
}

void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  map<float>(x, out, [](float v) { return 0.5f * v * std::erfc(-v * 0.70710678f); });
}
"""
mod = load_inline(name="gelu_template", cpp_sources=SOURCE, functions="gelu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.gelu(x, out)
        return out
