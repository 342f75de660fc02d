# honest: a mask that the model holds and that hides nothing
# task: kept_columns
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void twice(tvm::ffi::TensorView x, tvm::ffi::TensorView kept, tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  const bool* keep = static_cast<const bool*>(kept.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) w(out)[i] = keep[i % n] ? 2.0f * f(x)[i] : 0.0f;
}
"""
mod = load_inline(name="kept_columns", cpp_sources=SOURCE, functions="twice")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("kept", torch.ones(size, dtype=torch.bool))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.twice(x, self.kept, out)
        return out
