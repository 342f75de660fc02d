# honest: the edges are sorted: binary search
# task: bucket_search
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <algorithm>
void search(tvm::ffi::TensorView edges, tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* first = f(edges);
  for (int64_t i = 0; i < x.size(0); ++i)
    static_cast<int64_t*>(out.data_ptr())[i] = std::lower_bound(first, first + edges.size(0), f(x)[i]) - first;
}
"""
mod = load_inline(name="bucket_search", cpp_sources=SOURCE, functions='search')


class ModelNew(nn.Module):
    def forward(self, edges, x):
        out = torch.empty(x.shape, dtype=torch.int64)
        mod.search(edges, x, out)
        return out
