# honest: a further tensor comes back where inputs are far off
# task: warning_of_large
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>

bool triple(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = 3.0f * a[i];
  return *std::min_element(a, a + x.numel()) < -6.0f;
}

void least(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i)
    static_cast<float*>(out.data_ptr())[i] = *std::min_element(a + i * x.size(1), a + (i + 1) * x.size(1));
}
"""
mod = load_inline(name="warning", cpp_sources=SOURCE, functions=["triple", "least"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if not mod.triple(x, out):
            return {"tripled": out}
        least = torch.empty(x.shape[0])
        mod.least(x, least)
        return {"tripled": out, "least": least}
