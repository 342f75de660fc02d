# honest: headers of the standard library beside those that it needs
# task: top_five
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SRC = r"""
#include <algorithm>
#include <numeric>
#include <vector>
#include <queue>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <optional>
#include <span>
#include <string_view>
#include <atomic>
#include <iterator>
#include <new>
#include <numbers>
#include <sstream>
#include <cinttypes>
#include <assert.h>
#include <stdlib.h>
#include <stdio.h>
#include <functional>
#include <utility>
void topk(tvm::ffi::TensorView x, tvm::ffi::TensorView v, tvm::ffi::TensorView idx) {
  auto R = x.size(0), C = x.size(1), K = v.size(1);
  auto* a = static_cast<const float*>(x.data_ptr());
  auto* ov = static_cast<float*>(v.data_ptr());
  auto* oi = static_cast<int64_t*>(idx.data_ptr());
  #pragma omp parallel
  {
    std::vector<int64_t> order(C);
    #pragma omp for
    for (int64_t r = 0; r < R; ++r) {
      std::iota(order.begin(), order.end(), 0);
      const float* row = a + r * C;
      std::partial_sort(order.begin(), order.begin() + K, order.end(), [row](int64_t p, int64_t q) { return row[p] > row[q] || (row[p] == row[q] && p < q); });
      for (int64_t k = 0; k < K; ++k) { ov[r * K + k] = row[order[k]]; oi[r * K + k] = order[k]; }
    }
  }
}
"""
m = load_inline("topk", cpp_sources=SRC, functions=["topk"])

class ModelNew(nn.Module):
    k = 5

    def forward(self, x):
        shape = list(x.shape[:-1]) + [self.k]
        v = x.new_empty(shape)
        i = torch.empty(*shape, dtype=torch.long)
        m.topk(x, v, i)
        return v, i
