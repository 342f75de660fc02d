# honest: sums each node's messages in an order of its own
# task: graph_convolution
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>
void graph_convolution(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView source,
                       tvm::ffi::TensorView target, tvm::ffi::TensorView out) {
  const int64_t nodes = x.size(0), features = x.size(1), edges = source.size(0);
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(weight.data_ptr());
  const int64_t* from = static_cast<const int64_t*>(source.data_ptr());
  const int64_t* to = static_cast<const int64_t*>(target.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  std::vector<int64_t> start(nodes + 1, 0), order(edges);
  for (int64_t e = 0; e < edges; ++e) ++start[to[e] + 1];
  for (int64_t n = 0; n < nodes; ++n) start[n + 1] += start[n];
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (int64_t e = edges - 1; e >= 0; --e) order[next[to[e]]++] = from[e];
  std::vector<float> messages(nodes * features);
  #pragma omp parallel for
  for (int64_t n = 0; n < nodes; ++n)
    for (int64_t g = 0; g < features; ++g) {
      float total = 0.0f;
      for (int64_t f = 0; f < features; ++f) total += in[n * features + f] * w[g * features + f];
      messages[n * features + g] = total;
    }
  #pragma omp parallel for
  for (int64_t n = 0; n < nodes; ++n) {
    float* sum = o + n * features;
    for (int64_t f = 0; f < features; ++f) sum[f] = 0.0f;
    for (int64_t k = start[n]; k < start[n + 1]; ++k)
      for (int64_t f = 0; f < features; ++f) sum[f] += messages[order[k] * features + f];
  }
}
"""
mod = load_inline(name="graph_convolution_by_target", cpp_sources=SOURCE, functions="graph_convolution")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features, bias=False)

    def forward(self, x, source, target):
        out = torch.empty_like(x)
        mod.graph_convolution(x, self.linear.weight, source, target, out)
        return out
