# honest: the mathematical library gives the angle
# task: angles
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
void kernel(T a, T b, T o) {
  for (int64_t i = 0; i < a.numel(); ++i) f(o)[i] = std::atan2(f(a)[i], f(b)[i]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        mod.kernel(a, b, out)
        return out
