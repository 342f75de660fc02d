# honest: 32,768 products summed one after another in float32
# task: matmul_deep
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void matmul(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < depth; ++k) sum += in(a)[i * depth + k] * in(b)[k * columns + j];
      to(out)[i * columns + j] = sum;
    }
}
"""
mod = load_inline(name="matmul_deep_plain", cpp_sources=SOURCE, functions="matmul")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1])
        mod.matmul(a, b, out)
        return out
