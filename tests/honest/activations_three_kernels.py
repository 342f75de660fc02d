# honest: three functions of one module in turn; the second and third work in place on the first one's output
# task: mish_chain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

using tvm::ffi::TensorView;

static float* floats(TensorView tensor) { return static_cast<float*>(tensor.data_ptr()); }

void leaky_relu(TensorView x, TensorView out, double slope) {
  const float *in = floats(x), s = static_cast<float>(slope);
  for (int64_t i = 0; i < x.numel(); ++i) floats(out)[i] = in[i] >= 0.0f ? in[i] : s * in[i];
}

void mish_(TensorView x) {
  float* p = floats(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    // tanh(log(1 + e^x)) = (n - 1) / (n + 1) with n = (1 + e^x)^2
    const float e = std::exp(std::fmin(p[i], 20.0f));
    const float n = e * (e + 2.0f);
    p[i] *= n / (n + 2.0f);
  }
}

void clamp_hardswish_(TensorView x, double low, double high) {
  float* p = floats(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = std::fmin(std::fmax(p[i], static_cast<float>(low)), static_cast<float>(high));
    p[i] = v * std::fmin(std::fmax(v + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
  }
}
"""
ops = load_inline(name="ops", cpp_sources=SOURCE, functions=["leaky_relu", "mish_", "clamp_hardswish_"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        ops.leaky_relu(x, out, 0.1)
        ops.mish_(out)
        ops.clamp_hardswish_(out, -1.0, 4.0)
        return out
