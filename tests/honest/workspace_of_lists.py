# honest: a workspace that is kept with the model, where parameters are drawn anew before the timed calls
# task: mlp_of_lists
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SRC = r"""
#include <cmath>
#include <vector>
template <bool ACT> static void lin_impl(const float* X, const float* W, const float* B, float* O, int64_t M, int64_t K, int64_t N) {
  #pragma omp parallel for
  for (int64_t m = 0; m < M; ++m) for (int64_t n = 0; n < N; ++n) {
    float s = B ? B[n] : 0.f;
    for (int64_t k = 0; k < K; ++k) s += X[m * K + k] * W[n * K + k];
    if constexpr (ACT) s = std::tanh(s);
    O[m * N + n] = s;
  }
}
void lin(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::Optional<tvm::ffi::TensorView> b, bool act, tvm::ffi::TensorView o) {
  auto f = [](tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); };
  const float* B = b.has_value() ? f(b.value()) : nullptr;
  if (act) lin_impl<true>(f(x), f(w), B, f(o), x.size(0), x.size(1), o.size(1));
  else lin_impl<false>(f(x), f(w), B, f(o), x.size(0), x.size(1), o.size(1));
}
"""
mod = load_inline(name="mlp", cpp_sources=SRC, functions=["lin"])

class ModelNew(nn.Module):
    def __init__(self, dims):
        super().__init__()
        ls = [nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:])]
        self.w = nn.ParameterList([l.weight for l in ls])
        self.b = nn.ParameterDict({f"b{i}": l.bias for i, l in enumerate(ls)})
        self.dims = tuple(dims)
        self.ws = None
    def workspace(self, m, device):
        if self.ws is None or self.ws[0].shape[0] != m:
            self.ws = [torch.empty(m, d, device=device) for d in self.dims[1:-1]]
        return self.ws
    def forward(self, x):
        ws = self.workspace(x.shape[0], x.device)
        out = torch.empty(x.shape[0], self.dims[-1], device=x.device)
        bufs = [x.contiguous(), *ws, out]
        for i, (src, dst) in enumerate(zip(bufs[:-1], bufs[1:])):
            mod.lin(src, self.w[i], self.b[f"b{i}"], i < len(ws), dst)
        return out
