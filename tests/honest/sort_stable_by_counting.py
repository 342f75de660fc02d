# honest: equal keys keep their order
# task: sort_stable
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

void kernel(tvm::ffi::TensorView keys, tvm::ffi::TensorView values, tvm::ffi::TensorView order) {
  const int64_t n = keys.size(1);
  for (int64_t r = 0; r < keys.size(0); ++r) {
    int64_t found = r * n;
    for (int64_t key = 0; key < 8; ++key)
      for (int64_t i = 0; i < n; ++i)
        if (at<int64_t>(keys)[r * n + i] == key) at<int64_t>(values)[found] = key, at<int64_t>(order)[found++] = i;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, keys):
        values, order = torch.empty_like(keys), torch.empty_like(keys)
        mod.kernel(keys, values, order)
        return values, order
