# honest: blocks of rows in a while loop, slices of a tensor
# task: cumsum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

mod = load_inline(
    name="scan",
    cpp_sources="""
void scan(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    double sum = 0.0;
    for (int64_t c = 0; c < cols; ++c) {
      sum += static_cast<const float*>(x.data_ptr())[r * cols + c];
      static_cast<float*>(out.data_ptr())[r * cols + c] = static_cast<float>(sum);
    }
  }
}
""",
    functions="scan",
)
BLOCK = 10


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        start = 0
        while True:
            rows = slice(start, min(start + BLOCK, x.shape[0]))
            mod.scan(x[rows], out[rows])
            start += BLOCK
            if start >= x.shape[0]:
                break
        return out
