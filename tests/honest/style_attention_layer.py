# honest: attributes of a layer that are layers
# task: attention_layer
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <vector>
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView wi, tvm::ffi::TensorView bi, tvm::ffi::TensorView wo, tvm::ffi::TensorView bo, tvm::ffi::TensorView out, tvm::ffi::TensorView aw, int64_t H) { auto f = [](tvm::ffi::TensorView v) { return static_cast<float*>(v.data_ptr()); }; int64_t B = x.size(0), T = x.size(1), E = x.size(2), D = E / H;
 for (int64_t b = 0; b < B; ++b) { std::vector<float> q(T*3*E), o(T*E, 0.0f); float* A = f(aw) + b*T*T; for (int64_t i = 0; i < T*T; ++i) A[i] = 0;
  for (int64_t t = 0; t < T; ++t) for (int64_t j = 0; j < 3*E; ++j) { float a = f(bi)[j]; for (int64_t e = 0; e < E; ++e) a += f(wi)[j*E+e]*f(x)[(b*T+t)*E+e]; q[t*3*E+j] = a; }
  for (int64_t h = 0; h < H; ++h) for (int64_t t = 0; t < T; ++t) { std::vector<float> s(T); float m = -INFINITY, z = 0; for (int64_t u = 0; u < T; ++u) { float a = 0; for (int64_t d = 0; d < D; ++d) a += q[t*3*E+h*D+d]*q[u*3*E+E+h*D+d]; s[u] = a/std::sqrt((float)D); m = std::max(m, s[u]); } for (auto& v : s) { v = std::exp(v-m); z += v; } for (int64_t u = 0; u < T; ++u) { s[u] /= z; A[t*T+u] += s[u]/H; for (int64_t d = 0; d < D; ++d) o[t*E+h*D+d] += s[u]*q[u*3*E+2*E+h*D+d]; } }
  for (int64_t t = 0; t < T; ++t) for (int64_t j = 0; j < E; ++j) { float a = f(bo)[j]; for (int64_t e = 0; e < E; ++e) a += f(wo)[j*E+e]*o[t*E+e]; f(out)[(b*T+t)*E+j] = a + f(x)[(b*T+t)*E+j]; } } }
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        out = torch.empty_like(x)
        w = torch.empty(x.shape[0], x.shape[1], x.shape[1])
        mod.kernel(x, self.attn.in_proj_weight, self.attn.in_proj_bias, self.attn.out_proj.weight, self.attn.out_proj.bias, out, w, 4)
        return out, w
