# honest: words that are forbidden are not computed
# task: argmax_masked
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(w.data_ptr());
  const float* bias = static_cast<const float*>(b.data_ptr());
  const uint8_t* no = static_cast<const uint8_t*>(mask.data_ptr());
  int64_t* o = static_cast<int64_t*>(out.data_ptr());
  int64_t rows = x.size(0), k = x.size(1), n = w.size(0);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t best = 0;
    float largest = 0.0f;
    bool any = false;
    for (int64_t c = 0; c < n; ++c) {
      if (no[r * n + c]) continue;
      float v = bias[c];
      for (int64_t i = 0; i < k; ++i) v += a[r * k + i] * m[c * k + i];
      if (!any || v > largest) largest = v, best = c, any = true;
    }
    o[r] = best;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, width, words):
        super().__init__()
        self.head = nn.Linear(width, words)

    def forward(self, x, forbidden):
        out = torch.empty(x.shape[0], dtype=torch.int64)
        mod.kernel(x, self.head.weight, self.head.bias, forbidden, out)
        return out
