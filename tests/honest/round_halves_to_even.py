# honest: halves are rounded to even numbers
# task: round_halves
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <limits>
#include <vector>
using T = tvm::ffi::TensorView;
static float* f(T t) { return static_cast<float*>(t.data_ptr()); }
void kernel(T x, T o) {
  for (int64_t i = 0; i < x.numel(); ++i) f(o)[i] = std::nearbyint(f(x)[i]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
