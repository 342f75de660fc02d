# honest: the result is a dictionary with lists in it
# task: statistics
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
using tvm::ffi::TensorView;
void statistics(TensorView x, TensorView mean, TensorView low, TensorView high, TensorView positive) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  float *l = static_cast<float*>(low.data_ptr()), *h = static_cast<float*>(high.data_ptr());
  double sum = 0.0;
  int64_t count = 0;
  for (int64_t c = 0; c < cols; ++c) l[c] = h[c] = a[c];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const float v = a[r * cols + c];
      sum += v;
      count += v > 0.0f;
      l[c] = std::min(l[c], v);
      h[c] = std::max(h[c], v);
    }
  static_cast<float*>(mean.data_ptr())[0] = static_cast<float>(sum / (rows * cols));
  static_cast<int64_t*>(positive.data_ptr())[0] = count;
}
"""
mod = load_inline(name="statistics", cpp_sources=SOURCE, functions="statistics")


class ModelNew(nn.Module):
    def forward(self, x):
        outputs = {name: x.new_empty(()) for name in ("mean",)}
        low, high = (x.new_empty(x.shape[1]) for _ in range(2))
        outputs["range"] = [low, high]
        outputs.update(positive=torch.zeros((), dtype=torch.int64))
        mod.statistics(x, outputs["mean"], *outputs["range"], outputs["positive"])
        return outputs
