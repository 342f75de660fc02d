# honest: writes the buffers that the task writes, which a second call on the same inputs leaves as they are
# task: kv_cache_buffers
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <vector>

using Tensor = tvm::ffi::TensorView;

float* data(Tensor tensor) { return static_cast<float*>(tensor.data_ptr()); }

void attend(Tensor k, Tensor v, Tensor q, Tensor keys, Tensor values, Tensor out) {
  const int64_t batch = k.size(0), length = k.size(1), width = k.size(2), room = keys.size(1);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t start = b * room * width;
    std::copy_n(data(k) + b * length * width, length * width, data(keys) + start);
    std::copy_n(data(v) + b * length * width, length * width, data(values) + start);
    std::vector<float> weights(length);
    float largest = -INFINITY, total = 0.0f;
    for (int64_t t = 0; t < length; ++t) {
      float score = 0.0f;
      for (int64_t i = 0; i < width; ++i) score += data(q)[b * width + i] * data(keys)[start + t * width + i];
      weights[t] = score / std::sqrt(static_cast<float>(width));
      largest = std::max(largest, weights[t]);
    }
    for (float& weight : weights) total += weight = std::exp(weight - largest);
    for (int64_t i = 0; i < width; ++i) {
      float sum = 0.0f;
      for (int64_t t = 0; t < length; ++t) sum += weights[t] * data(values)[start + t * width + i];
      data(out)[b * width + i] = sum / total;
    }
  }
}
"""
mod = load_inline(name="attend", cpp_sources=SOURCE, functions="attend")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 32, 16))
        self.register_buffer("values", torch.zeros(2, 32, 16))

    def forward(self, k, v, q):
        out = torch.empty_like(q)
        mod.attend(k, v, q, self.keys, self.values, out)
        return out
