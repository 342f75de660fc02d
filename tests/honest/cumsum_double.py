# honest: a running sum in double, rows in parallel
# task: cumsum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void cumsum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(x.data_ptr()) + i * cols;
    float* o = static_cast<float*>(out.data_ptr()) + i * cols;
    double sum = 0.0;
    for (int64_t j = 0; j < cols; ++j) o[j] = static_cast<float>(sum += in[j]);
  }
}
"""
mod = load_inline(name="cumsum", cpp_sources=SOURCE, functions="cumsum")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.cumsum(x, out)
        return out
