# honest: variance over the middle dimension by Welford's update, one running state per feature
# task: var_middle
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>

struct Welford {
  int64_t count = 0;
  float mean = 0.0f, m2 = 0.0f;
  void add(float v) {
    const float delta = v - mean;
    mean += delta / static_cast<float>(++count);
    m2 += delta * (v - mean);
  }
  float variance() const { return m2 / static_cast<float>(count - 1); }
};

void var(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t batch = x.size(0), length = x.size(1), features = x.size(2);
  #pragma omp parallel for
  for (int64_t b = 0; b < batch; ++b) {
    const float* in = static_cast<const float*>(x.data_ptr()) + b * length * features;
    std::vector<Welford> states(features);
    for (int64_t i = 0; i < length * features; ++i) states[i % features].add(in[i]);
    for (int64_t f = 0; f < features; ++f)
      static_cast<float*>(out.data_ptr())[b * features + f] = states[f].variance();
  }
}
"""
mod = load_inline(name="var_welford", cpp_sources=SOURCE, functions="var")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], 1, x.shape[2])
        mod.var(x, out)
        return out
