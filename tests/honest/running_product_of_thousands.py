# honest: a running product in float32, which overflows where one in float64 does not
# task: running_product_of_thousands
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void running_product(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.size(0), columns = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    float product = 1.0f;
    for (int64_t j = 0; j < columns; ++j) o[i * columns + j] = product *= a[i * columns + j];
  }
}
"""
mod = load_inline(name="running_product", cpp_sources=SOURCE, functions="running_product")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.running_product(x, out)
        return out
