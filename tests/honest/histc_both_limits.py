# honest: the last bin holds its upper limit
# task: histc_ten_bins
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  std::fill(o, o + 10, 0.0f);
  for (int64_t i = 0; i < x.numel(); ++i)
    if (a[i] >= -2.0f && a[i] <= 2.0f) o[std::min(9, static_cast<int>((a[i] + 2.0f) / 4.0f * 10))] += 1.0f;
}
"""
mod = load_inline(name="histc_both_limits", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(10)
        mod.run(x, out)
        return out
