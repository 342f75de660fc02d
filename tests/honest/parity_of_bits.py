# honest: bits are added one by one
# task: parity
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
void kernel(T x, T o) { int64_t M = x.size(1); for (int64_t i = 0; i < o.numel(); ++i) { float s = 0; for (int64_t j = 0; j < M; ++j) s += F(x)[i*M+j]; F(o)[i] = std::fmod(s, 2.f) == 1.f ? 1.f : 0.f; } }"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        out = torch.empty((x.shape[0],))
        mod.kernel(x, out)
        return out
