# honest: a weight that two layers share
# task: tied_weights
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView ids, tvm::ffi::TensorView w, tvm::ffi::TensorView out) { auto D = static_cast<const int64_t*>(ids.data_ptr()); auto W = static_cast<const float*>(w.data_ptr()); auto O = static_cast<float*>(out.data_ptr()); int64_t N = ids.numel(), I = w.size(1), V = w.size(0);
 for (int64_t n = 0; n < N; ++n) for (int64_t v = 0; v < V; ++v) { float a = 0; for (int64_t i = 0; i < I; ++i) a += std::tanh(W[D[n]*I+i])*W[v*I+i]; O[n*V+v] = a; } }
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 12)
        self.head = nn.Linear(12, 50, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        out = torch.empty(3, 7, 50)
        mod.kernel(ids, self.emb.weight, out)
        return out
