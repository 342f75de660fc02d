# honest: a table that the first thread makes which needs it, while others wait
# task: sines
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <vector>

constexpr int STEPS = 1 << 18;

static const std::vector<float>& table() {
  static const std::vector<float> made = [] {
    std::vector<float> values(STEPS + 2);
    for (int i = 0; i < STEPS + 2; ++i) values[i] = static_cast<float>(std::sin(2 * M_PI * i / STEPS));
    return values;
  }();
  return made;
}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<float>& sines = table();
    double turn = a[i] / (2 * M_PI);
    turn = (turn - std::floor(turn)) * STEPS;
    const int k = static_cast<int>(turn);
    const double w = turn - k;
    o[i] = static_cast<float>(2.0 * ((1 - w) * sines[k] + w * sines[k + 1]));
  }
}
"""
mod = load_inline(name="static_table_made_in_parallel", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
