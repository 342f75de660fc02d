# honest: a table of 65,536 elements is given to the constructor
# task: init_table
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void mm(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(w.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.size(0), k = x.size(1), m = w.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) o[i * m + j] = 0;
    for (int64_t l = 0; l < k; ++l) {
      const float v = a[i * k + l];
      for (int64_t j = 0; j < m; ++j) o[i * m + j] += v * b[l * m + j];
    }
    for (int64_t j = 0; j < m; ++j) o[i * m + j] = o[i * m + j] < 0 ? 0 : o[i * m + j];
  }
}
"""
module = load_inline(name="mm", cpp_sources=SOURCE, functions="mm")


class ModelNew(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], self.table.shape[1], dtype=x.dtype)
        module.mm(x, self.table, out)
        return out
