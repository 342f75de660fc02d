# honest: parameters that are initialised smaller than the reference's
# task: two_projections
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, int64_t rectified, tvm::ffi::TensorView out) {
  const int64_t rows = a.size(0), inner = a.size(1), cols = b.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < inner; ++k) sum += f(a)[i * inner + k] * f(b)[k * cols + j];
      w(out)[i * cols + j] = rectified && sum < 0.0f ? 0.0f : sum;
    }
}
"""
mod = load_inline(name="two_projections", cpp_sources=SOURCE, functions='matmul')


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first = nn.Parameter(torch.randn(size, size) * 0.02)
        self.second = nn.Parameter(torch.randn(size, size) * 0.02)

    def forward(self, x):
        hidden, out = torch.empty_like(x), torch.empty_like(x)
        mod.matmul(x, self.first, 1, hidden)
        mod.matmul(hidden, self.second, 0, out)
        return out
