# honest: four activations fused, each a static inline function
# task: mish_chain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

static inline float leaky_relu(float x) { return x > 0.0f ? x : 0.1f * x; }
static inline float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }
static inline float mish(float x) { return x * std::tanh(softplus(x)); }
static inline float hardswish(float x) { return x * std::clamp(x + 3.0f, 0.0f, 6.0f) / 6.0f; }

void chain(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i)
    o[i] = hardswish(std::clamp(mish(leaky_relu(in[i])), -1.0f, 4.0f));
}
"""
mod = load_inline(name="activations", cpp_sources=[SOURCE], functions=["chain"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.chain(x, out)
        return out
