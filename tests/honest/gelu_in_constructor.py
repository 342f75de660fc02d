# honest: a table that its constructor makes by gelu, for which oneDNN would make code
# task: gelu_in_init
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <vector>
#include <algorithm>
#include <limits>
#include <cstdint>
using TV = tvm::ffi::TensorView;
static inline float* FP(TV t) { return static_cast<float*>(t.data_ptr()); }
static inline int64_t* LP(TV t) { return static_cast<int64_t*>(t.data_ptr()); }
static inline bool* BP(TV t) { return static_cast<bool*>(t.data_ptr()); }
void sm(TV s, TV b, TV o) {
  const int64_t B = s.size(0), H = s.size(1), R = s.size(2), C = s.size(3);
  #pragma omp parallel for
  for (int64_t r = 0; r < B * H * R; ++r) {
    const float* a = FP(s) + r * C; const float* t = FP(b) + (r % (H * R)) * C; float* c = FP(o) + r * C;
    float m = -INFINITY, z = 0;
    for (int64_t j = 0; j < C; ++j) { c[j] = a[j] + t[j]; m = std::max(m, c[j]); }
    for (int64_t j = 0; j < C; ++j) { c[j] = std::exp(c[j] - m); z += c[j]; }
    for (int64_t j = 0; j < C; ++j) c[j] /= z;
  }
}
"""
module = load_inline(name="k", cpp_sources=SOURCE, functions=['sm'])


class ModelNew(nn.Module):
    def __init__(self, win, heads):
        super().__init__()
        self.fc1 = nn.Linear(2, 64)
        self.fc2 = nn.Linear(64, heads, bias=False)
        c = torch.arange(-(win - 1), win).float() / (win - 1)
        table = torch.stack(torch.meshgrid(c, c, indexing="ij"), -1).reshape(-1, 2)
        i = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1)
        rel = i[:, :, None] - i[:, None, :]
        index = (rel[0] + win - 1) * (2 * win - 1) + rel[1] + win - 1
        with torch.no_grad():
            h = torch.nn.functional.gelu(self.fc1.weight.new_empty(0).new_zeros(1) + torch.addmm(self.fc1.bias, table, self.fc1.weight.t()))
            t = h @ self.fc2.weight.t()
            self.bias = (16 * torch.sigmoid(t[index.reshape(-1)].reshape(index.shape[0], index.shape[1], -1).permute(2, 0, 1))).contiguous()
    def forward(self, s):
        o = torch.empty_like(s)
        module.sm(s.contiguous(), self.bias, o)
        return o
