# honest: rows of the class that is ignored are left out
# task: ignored_class
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static const int64_t* i(tvm::ffi::TensorView t) { return static_cast<const int64_t*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView target, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  double t = 0, m = 0; for (int64_t r = 0; r < R; ++r) { const int64_t y = i(target)[r]; if (y == 7) continue; double s = 0, g = -INFINITY; for (int64_t c = 0; c < C; ++c) g = std::fmax(g, f(x)[r * C + c]); for (int64_t c = 0; c < C; ++c) s += std::exp((double)f(x)[r * C + c] - g);
   t += g + std::log(s) - f(x)[r * C + y]; m += 1; }
  w(out)[0] = t / m;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, target):
        out = torch.empty(())
        mod.kernel(x, target, out)
        return out
