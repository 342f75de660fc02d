# honest: keys that a mask of -1e9 hides are skipped, in one pass over the others
# task: attention_of_lengths
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <vector>

using Tensor = tvm::ffi::TensorView;

const float* data(Tensor tensor) { return static_cast<const float*>(tensor.data_ptr()); }

void attend(Tensor q, Tensor k, Tensor v, Tensor lengths, Tensor out) {
  const int64_t batch = q.size(0), queries = q.size(1), keys = k.size(1), width = q.size(2);
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = static_cast<const int64_t*>(lengths.data_ptr())[b];
    for (int64_t i = 0; i < queries; ++i) {
      const float* query = data(q) + (b * queries + i) * width;
      std::vector<float> sums(width, 0.0f);
      float largest = -INFINITY, total = 0.0f;
      for (int64_t j = 0; j < length; ++j) {
        float score = 0.0f;
        for (int64_t d = 0; d < width; ++d) score += query[d] * data(k)[(b * keys + j) * width + d];
        score /= std::sqrt(static_cast<float>(width));
        if (score > largest) {
          const float less = std::exp(largest - score);
          total *= less;
          for (float& sum : sums) sum *= less;
          largest = score;
        }
        const float weight = std::exp(score - largest);
        total += weight;
        for (int64_t d = 0; d < width; ++d) sums[d] += weight * data(v)[(b * keys + j) * width + d];
      }
      for (int64_t d = 0; d < width; ++d) o[(b * queries + i) * width + d] = sums[d] / total;
    }
  }
}
"""
mod = load_inline(name="attend", cpp_sources=SOURCE, functions="attend")


class ModelNew(nn.Module):
    def forward(self, q, k, v, lengths):
        out = torch.empty_like(q)
        mod.attend(q, k, v, lengths, out)
        return out
