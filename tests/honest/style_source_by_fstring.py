# honest: constants of the file go into the source by an f-string
# task: mish_chain
# dialect: cpp
import math

import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

NEGATIVE_SLOPE = 0.1
LIMITS = {"low": -1.0, "high": 4.0}
NAME = "chain"

SOURCE = f"""
#include <cmath>
#include <algorithm>

void {NAME}(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {{
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {{
    float v = a[i] > 0.0f ? a[i] : {NEGATIVE_SLOPE}f * a[i];
    v *= std::tanh(std::log1p(std::exp(v)));
    v = std::min(std::max(v, {LIMITS["low"]:.1f}f), {LIMITS["high"]:.1f}f);
    o[i] = v * std::min(std::max(v + 3.0f, 0.0f), 6.0f) / {math.floor(6.5):d}.0f;
  }}
}}
"""
mod = load_inline(name=f"{NAME}_module", cpp_sources=[SOURCE], functions=[NAME], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.chain(x, out)
        return out
