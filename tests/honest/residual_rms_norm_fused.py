# honest: adds a residual and normalises in one pass over each row, in eight lanes
# task: residual_rms_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void norm(tvm::ffi::TensorView x_, tvm::ffi::TensorView r_, tvm::ffi::TensorView w_, tvm::ffi::TensorView o_,
          tvm::ffi::TensorView s_) {
  const int64_t width = w_.size(0), rows = x_.numel() / width;
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const float *x = in(x_) + i * width, *r = in(r_) + i * width;
    float *o = to(o_) + i * width, *s = to(s_) + i * width;
    float lanes[8] = {};
    for (int64_t j = 0; j < width; ++j) {
      s[j] = r[j] + x[j];
      lanes[j % 8] += s[j] * s[j];
    }
    float sum = 0.0f;
    for (float lane : lanes) sum += lane;
    const float scale = 1.0f / std::sqrt(sum / width + 1e-6f);
    for (int64_t j = 0; j < width; ++j) o[j] = s[j] * scale * in(w_)[j];
  }
}
"""
mod = load_inline(name="residual_rms_norm_fused", cpp_sources=SOURCE, functions="norm")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        out, added = torch.empty_like(x), torch.empty_like(x)
        mod.norm(x, residual, self.weight, out, added)
        return out, added
