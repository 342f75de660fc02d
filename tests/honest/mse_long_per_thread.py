# honest: a partial sum in float32 for each thread, each over its part of 524,288 squares
# task: mse_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void mse(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out, int64_t n) {
  const float* x = static_cast<const float*>(a.data_ptr());
  const float* y = static_cast<const float*>(b.data_ptr());
  float sum = 0.0f;
  #pragma omp parallel for reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float difference = x[i] - y[i];
    sum += difference * difference;
  }
  *static_cast<float*>(out.data_ptr()) = sum / n;
}
"""
mod = load_inline(name="mse_long_per_thread", cpp_sources=SOURCE, functions="mse")


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        out = torch.empty((), dtype=prediction.dtype)
        mod.mse(prediction, target, out, prediction.numel())
        return out
