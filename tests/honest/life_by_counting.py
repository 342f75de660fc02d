# honest: neighbours are counted one by one
# task: life
# dialect: cpp
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <algorithm>
#include <vector>
#include <cstdint>
#include <cstring>
#include <limits>
using T = tvm::ffi::TensorView;
static inline float* F(T t) { return static_cast<float*>(t.data_ptr()); }

void kernel(T x, T o) {
  int64_t B0 = x.size(0), H = x.size(2), W = x.size(3);
  for (int64_t b = 0; b < B0; ++b) for (int64_t i = 0; i < H; ++i) for (int64_t j = 0; j < W; ++j) {
    const float* p = F(x) + b*H*W; float n = 0;
    for (int a = -1; a <= 1; ++a) for (int c = -1; c <= 1; ++c) if ((a || c) && i+a >= 0 && i+a < H && j+c >= 0 && j+c < W) n += p[(i+a)*W + j+c];
    F(o)[b*H*W+i*W+j] = (n == 3 || (n == 2 && p[i*W+j] == 1)) ? 1.f : 0.f;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
