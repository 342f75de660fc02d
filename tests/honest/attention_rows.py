# honest: causal attention, one row of scores at a time
# task: attention
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <vector>

using tvm::ffi::TensorView;

void attention(TensorView q, TensorView k, TensorView v, TensorView out, double scale) {
  const int64_t heads = q.size(0), length = q.size(1), width = q.size(2), size = length * width;
  #pragma omp parallel for
  for (int64_t h = 0; h < heads; ++h) {
    const float* Q = static_cast<const float*>(q.data_ptr()) + h * size;
    const float* K = static_cast<const float*>(k.data_ptr()) + h * size;
    const float* V = static_cast<const float*>(v.data_ptr()) + h * size;
    float* O = static_cast<float*>(out.data_ptr()) + h * size;
    std::vector<double> score(length), sums(width);
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0.0;
        for (int64_t d = 0; d < width; ++d) dot += static_cast<double>(Q[i * width + d]) * K[j * width + d];
        score[j] = dot * scale;
      }
      const double top = *std::max_element(score.begin(), score.begin() + i + 1);
      double total = 0.0;
      sums.assign(width, 0.0);
      for (int64_t j = 0; j <= i; ++j) {
        const double p = std::exp(score[j] - top);
        total += p;
        for (int64_t d = 0; d < width; ++d) sums[d] += p * V[j * width + d];
      }
      for (int64_t d = 0; d < width; ++d) O[i * width + d] = static_cast<float>(sums[d] / total);
    }
  }
}
"""
mod = load_inline(name="attention", cpp_sources=SOURCE, functions="attention")


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        mod.attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), out.view(-1, *q.shape[2:]), q.shape[-1] ** -0.5)
        return out
