# honest: flash-style attention with a running maximum, so that no scores are stored
# task: attention
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <array>
#include <cmath>

constexpr int WIDTH = 16;
using Row = std::array<float, WIDTH>;

static inline double dot(const Row& a, const Row& b) {
  double sum = 0.0;
  for (int d = 0; d < WIDTH; ++d) sum += static_cast<double>(a[d]) * b[d];
  return sum;
}

void attention(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView out) {
  TVM_FFI_ICHECK_EQ(q.size(3), WIDTH);
  const int64_t length = q.size(2), heads = q.size(0) * q.size(1);
  #pragma omp parallel for collapse(2)
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < length; ++i) {
      const Row& query = static_cast<const Row*>(q.data_ptr())[h * length + i];
      const Row* keys = static_cast<const Row*>(k.data_ptr()) + h * length;
      const Row* values = static_cast<const Row*>(v.data_ptr()) + h * length;
      double top = -INFINITY, total = 0.0;
      std::array<double, WIDTH> sums{};
      for (int64_t j = 0; j <= i; ++j) {
        const double score = 0.25 * dot(query, keys[j]), larger = std::fmax(top, score);
        const double keep = std::exp(top - larger), p = std::exp(score - larger);
        for (int d = 0; d < WIDTH; ++d) sums[d] = sums[d] * keep + p * values[j][d];
        total = total * keep + p;
        top = larger;
      }
      Row& o = static_cast<Row*>(out.data_ptr())[h * length + i];
      for (int d = 0; d < WIDTH; ++d) o[d] = static_cast<float>(sums[d] / total);
    }
}
"""
mod = load_inline(name="attention_online", cpp_sources=SOURCE, functions="attention")


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = q.new_empty(q.shape)
        mod.attention(q, k, v, out)
        return out
