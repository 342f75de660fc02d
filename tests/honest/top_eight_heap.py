# honest: keeps the eight largest of a row in a heap
# task: top_eight
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <algorithm>
#include <utility>
#include <vector>
void top(tvm::ffi::TensorView x_, tvm::ffi::TensorView v_, tvm::ffi::TensorView i_, int64_t k) {
  const int64_t rows = x_.size(0), columns = x_.size(1);
  int64_t* indices = static_cast<int64_t*>(i_.data_ptr());
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<std::pair<float, int64_t>> heap;
    auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
    for (int64_t c = 0; c < columns; ++c) {
      const float value = in(x_)[r * columns + c];
      if (static_cast<int64_t>(heap.size()) == k) {
        if (value <= heap.front().first) continue;
        std::pop_heap(heap.begin(), heap.end(), larger);
        heap.pop_back();
      }
      heap.emplace_back(value, c);
      std::push_heap(heap.begin(), heap.end(), larger);
    }
    std::sort_heap(heap.begin(), heap.end(), larger);
    for (int64_t j = 0; j < k; ++j) {
      to(v_)[r * k + j] = heap[j].first;
      indices[r * k + j] = heap[j].second;
    }
  }
}
"""
mod = load_inline(name="top_eight_heap", cpp_sources=SOURCE, functions="top")


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.empty(x.shape[0], 8)
        indices = torch.empty(x.shape[0], 8, dtype=torch.int64)
        mod.top(x, values, indices, 8)
        return values, indices
