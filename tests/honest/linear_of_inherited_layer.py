# honest: the task's class is copied, and only its forward is replaced
# task: linear
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void linear(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(w.data_ptr());
  const float* c = static_cast<const float*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), inner = x.size(1), cols = w.size(0);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float sum = c[j];
      for (int64_t k = 0; k < inner; ++k) sum += a[i * inner + k] * m[j * inner + k];
      o[i * cols + j] = sum;
    }
}
"""
mod = load_inline(name="linear", cpp_sources=SOURCE, functions="linear")


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return self.linear(x)


class ModelNew(Model):
    def __init__(self, features_in, features_out):
        super().__init__(features_in, features_out)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.linear.weight.shape[0], dtype=x.dtype)
        mod.linear(x, self.linear.weight, self.linear.bias, out)
        return out
