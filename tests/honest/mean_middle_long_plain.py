# honest: columns summed row by row in float32, which the compiler vectorises over columns
# task: mean_middle_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void mean(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t batch = x.size(0), rows = x.size(1), columns = x.size(2);
  for (int64_t n = 0; n < batch; ++n) {
    float* o = to(out) + n * columns;
    for (int64_t c = 0; c < columns; ++c) o[c] = 0.0f;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) o[c] += in(x)[(n * rows + r) * columns + c];
    for (int64_t c = 0; c < columns; ++c) o[c] /= rows;
  }
}
"""
mod = load_inline(name="mean_middle_long_plain", cpp_sources=SOURCE, functions="mean")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[2])
        mod.mean(x, out)
        return out
