# honest: functions in a table, picked by the number of columns; sorted by a lambda
# task: logsumexp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <algorithm>
using tvm::ffi::TensorView;
template <int LANES>
void rows(TensorView x, TensorView out) {
  const int64_t n = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < n; ++r) {
    const float* a = static_cast<const float*>(x.data_ptr()) + r * cols;
    float best = a[0];
    for (int64_t c = 1; c < cols; ++c) best = std::max(best, a[c]);
    if (std::isinf(best)) { static_cast<float*>(out.data_ptr())[r] = best; continue; }
    float sums[LANES] = {};
    for (int64_t c = 0; c < cols; ++c) sums[c % LANES] += std::exp(a[c] - best);
    float sum = 0.0f;
    for (float part : sums) sum += part;
    static_cast<float*>(out.data_ptr())[r] = best + std::log(sum);
  }
}
void narrow(TensorView x, TensorView out) { rows<1>(x, out); }
void wide(TensorView x, TensorView out) { rows<8>(x, out); }
"""
mod = load_inline(name="logsumexp", cpp_sources=SOURCE, functions=["narrow", "wide"])
FUNCTIONS = {64: mod.narrow, 1 << 30: mod.wide}
LIMITS = sorted(FUNCTIONS, key=lambda limit: -limit, reverse=True)


def pick(cols):
    for limit in LIMITS:
        if cols <= limit:
            return FUNCTIONS[limit]
    raise ValueError(f"{cols} columns")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        run = pick(x.shape[1])
        run(x, out)
        return out
