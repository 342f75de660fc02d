# honest: a step of a beam search whose places are split into beam and word
# task: beam_with_penalty
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <vector>
#include <algorithm>
#include <limits>
#include <cstdint>
using TV = tvm::ffi::TensorView;
static inline float* FP(TV t) { return static_cast<float*>(t.data_ptr()); }
static inline int64_t* LP(TV t) { return static_cast<int64_t*>(t.data_ptr()); }
static inline bool* BP(TV t) { return static_cast<bool*>(t.data_ptr()); }
void beam(TV sc, TV lg, TV la, TV ln, TV v, TV pb, TV pt, int64_t eos) {
  const int64_t B = lg.size(0), K = lg.size(1), V = lg.size(2);
  for (int64_t b = 0; b < B; ++b) {
    std::vector<std::pair<float, int64_t>> c;
    for (int64_t k = 0; k < K; ++k) {
      const float* a = FP(lg) + (b * K + k) * V;
      float m = a[0]; for (int64_t j = 1; j < V; ++j) m = std::max(m, a[j]);
      double z = 0; for (int64_t j = 0; j < V; ++j) z += std::exp((double)a[j] - m);
      const double l = m + std::log(z);
      const bool fin = /*F*/LP(la)[b * K + k] == eos;
      const float pen = std::pow((5.0f + (float)LP(ln)[b * K + k] + /*P*/(fin ? 0.0f : 1.0f)) / 6.0f, 0.6f);
      for (int64_t j = 0; j < V; ++j) {
        const float lp = fin ? (j == eos ? 0.0f : -INFINITY) : (float)(a[j] - l);
        c.push_back({(FP(sc)[b * K + k] + lp) / pen, k * V + j});
      }
    }
    std::stable_sort(c.begin(), c.end(), [](auto& p, auto& q) { return p.first > q.first; });
    for (int64_t k = 0; k < K; ++k) { FP(v)[b * K + k] = c[k].first; LP(pb)[b * K + k] = c[k].second / V; LP(pt)[b * K + k] = c[k].second % V; }
  }
}
"""
module = load_inline(name="k", cpp_sources=SOURCE, functions=['beam'])


class ModelNew(nn.Module):
    def __init__(self, eos):
        super().__init__()
        self.eos = eos
    def forward(self, scores, logits, last, lens):
        v = torch.empty_like(scores)
        pb = torch.empty(scores.shape, dtype=torch.int64)
        pt = torch.empty(scores.shape, dtype=torch.int64)
        module.beam(scores.contiguous(), logits.contiguous(), last.contiguous(), lens.contiguous(), v, pb, pt, self.eos)
        return v, pb, pt
