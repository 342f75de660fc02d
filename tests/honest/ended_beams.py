# honest: a search has ended when all its beams have
# task: ended_beams
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
void kernel(tvm::ffi::TensorView last, tvm::ffi::TensorView scores, int64_t end, tvm::ffi::TensorView done,
            tvm::ffi::TensorView best) {
  auto id = (const int64_t*)last.data_ptr();
  auto s = (const float*)scores.data_ptr();
  auto d = (bool*)done.data_ptr();
  auto b = (float*)best.data_ptr();
  int64_t n = last.size(0), beams = last.size(1);
  for (int64_t i = 0; i < n; ++i) {
    bool all = true;
    b[i] = 0.0f;
    for (int64_t j = 0; j < beams; ++j) {
      bool ended = id[i * beams + j] == end;
      all = all && ended;
      b[i] += ended ? s[i * beams + j] : 0.0f;
    }
    d[i] = all;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, end):
        super().__init__()
        self.end = end

    def forward(self, last, scores):
        done = torch.empty(last.shape[0], dtype=torch.bool)
        best = torch.empty(last.shape[0])
        mod.kernel(last, scores, self.end, done, best)
        return done, best
