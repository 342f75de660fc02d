# honest: distances of a triplet loss in float32, and their mean
# task: triplet_loss
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void triplet(tvm::ffi::TensorView a_, tvm::ffi::TensorView p_, tvm::ffi::TensorView n_, tvm::ffi::TensorView o_) {
  const int64_t rows = a_.size(0), width = a_.size(1);
  float total = 0.0f;
  for (int64_t i = 0; i < rows; ++i) {
    float near = 0.0f, far = 0.0f;
    for (int64_t j = 0; j < width; ++j) {
      const float a = in(a_)[i * width + j];
      const float p = a - in(p_)[i * width + j] + 1e-6f, n = a - in(n_)[i * width + j] + 1e-6f;
      near += p * p;
      far += n * n;
    }
    const float loss = 1.0f + std::sqrt(near) - std::sqrt(far);
    total += loss > 0.0f ? loss : 0.0f;
  }
  *to(o_) = total / rows;
}
"""
mod = load_inline(name="triplet_loss_rows", cpp_sources=SOURCE, functions="triplet")


class ModelNew(nn.Module):
    def forward(self, anchor, positive, negative):
        out = torch.empty(())
        mod.triplet(anchor, positive, negative, out)
        return out
