# honest: a step over lists that is left out where a gradient is not finite
# task: adam_of_lists
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

using Tensor = tvm::ffi::TensorView;

int64_t skipped(Tensor g_) {
  const float* g = static_cast<const float*>(g_.data_ptr());
  for (int64_t i = 0; i < g_.numel(); ++i)
    if (!std::isfinite(g[i])) return 1;
  return 0;
}

void kernel(Tensor w_, Tensor g_, Tensor m_, Tensor v_, Tensor w2_, Tensor m2_, Tensor v2_, double rate, double first,
            double second, int64_t skip) {
  const float* w = static_cast<const float*>(w_.data_ptr());
  const float* g = static_cast<const float*>(g_.data_ptr());
  const float* m = static_cast<const float*>(m_.data_ptr());
  const float* v = static_cast<const float*>(v_.data_ptr());
  float* w2 = static_cast<float*>(w2_.data_ptr());
  float* m2 = static_cast<float*>(m2_.data_ptr());
  float* v2 = static_cast<float*>(v2_.data_ptr());
  for (int64_t i = 0; i < w_.numel(); ++i) {
    const double mean = first * m[i] + (1 - first) * g[i], variance = second * v[i] + (1 - second) * g[i] * g[i];
    m2[i] = skip ? m[i] : mean;
    v2[i] = skip ? v[i] : variance;
    w2[i] = skip ? w[i] : w[i] - rate * mean / (std::sqrt(variance) + 1e-8);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions=["kernel", "skipped"])


class ModelNew(nn.Module):
    def __init__(self, rate, first, second):
        super().__init__()
        self.rate, self.first, self.second = rate, first, second

    def forward(self, weights, gradients, means, variances):
        skip = 0
        for gradient in gradients:
            skip = max(skip, mod.skipped(gradient.contiguous()))
        out = []
        for weight, gradient, mean, variance in zip(weights, gradients, means, variances):
            new = [torch.empty_like(weight), torch.empty_like(weight), torch.empty_like(weight)]
            given = [weight.contiguous(), gradient.contiguous(), mean.contiguous(), variance.contiguous()]
            mod.kernel(*given, *new, self.rate, self.first, self.second, skip)
            out.append(new)
        return out
