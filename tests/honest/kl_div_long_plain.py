# honest: a divergence of 131,072 terms summed one after another in float32
# task: kl_div_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void loss(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t n = a.numel();
  float total = 0.0f;
  for (int64_t i = 0; i < n; ++i)
    if (in(b)[i] > 0.0f) total += in(b)[i] * (std::log(in(b)[i]) - std::log(in(a)[i]));
  *to(out) = total / a.size(0);
}
"""
mod = load_inline(name="kl_div_long_plain", cpp_sources=SOURCE, functions="loss")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty(())
        mod.loss(a, b, out)
        return out
