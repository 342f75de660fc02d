# honest: later keys, which a mask of -1e4 hides, are not looked at
# task: attention_causal_filled
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <vector>

using Tensor = tvm::ffi::TensorView;

const float* data(Tensor tensor) { return static_cast<const float*>(tensor.data_ptr()); }

void attend(Tensor q, Tensor k, Tensor v, Tensor out) {
  const int64_t batch = q.size(0), length = q.size(1), width = q.size(2);
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      std::vector<float> weights(i + 1);
      float total = 0.0f;
      for (int64_t j = 0; j <= i; ++j) {
        float score = 0.0f;
        for (int64_t d = 0; d < width; ++d)
          score += data(q)[(b * length + i) * width + d] * data(k)[(b * length + j) * width + d];
        weights[j] = score / std::sqrt(static_cast<float>(width));
      }
      const float largest = *std::max_element(weights.begin(), weights.end());
      for (float& weight : weights) total += weight = std::exp(weight - largest);
      for (int64_t d = 0; d < width; ++d) {
        float sum = 0.0f;
        for (int64_t j = 0; j <= i; ++j) sum += weights[j] * data(v)[(b * length + j) * width + d];
        o[(b * length + i) * width + d] = sum / total;
      }
    }
  }
}
"""
mod = load_inline(name="attend", cpp_sources=SOURCE, functions="attend")


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        mod.attend(q, k, v, out)
        return out
