# honest: one pass for the count and the mean
# task: hinge_count
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView count, tvm::ffi::TensorView mean) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(w.data_ptr());
  const float* c = static_cast<const float*>(b.data_ptr());
  int64_t* n = static_cast<int64_t*>(count.data_ptr());
  float* o = static_cast<float*>(mean.data_ptr());
  int64_t rows = x.size(0), inner = x.size(1), cols = w.size(0);
  for (int64_t i = 0; i < rows; ++i) {
    n[i] = 0;
    float sum = 0.0f;
    for (int64_t j = 0; j < cols; ++j) {
      float s = c[j];
      for (int64_t k = 0; k < inner; ++k) s += a[i * inner + k] * m[j * inner + k];
      if (s > 0.25f) ++n[i], sum += s;
    }
    o[i] = sum / cols;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        count, mean = torch.empty(x.shape[0], dtype=torch.int64), torch.empty(x.shape[0])
        mod.kernel(x, self.linear.weight, self.linear.bias, count, mean)
        return count, mean
