# honest: an expert without tokens has a mean of zero
# task: dispatch_to_experts
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>
#include <vector>

template <typename T>
static T* at(tvm::ffi::TensorView t) { return static_cast<T*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView experts, tvm::ffi::TensorView out, tvm::ffi::TensorView token) {
  int64_t found = 0;
  for (int64_t e = 0; e < 16; ++e) {
    std::vector<double> sums(32);
    const int64_t before = found;
    for (int64_t i = 0; i < experts.numel(); ++i)
      if (at<int64_t>(experts)[i] == e) {
        at<int64_t>(token)[found++] = i / 2;
        for (int64_t d = 0; d < 32; ++d) sums[d] += at<float>(x)[i / 2 * 32 + d];
      }
    for (int64_t d = 0; d < 32; ++d) at<float>(out)[e * 32 + d] = sums[d] / (found > before ? found - before : 1);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, experts):
        out, token = torch.empty(16, 32), torch.empty(experts.numel(), dtype=torch.int64)
        mod.kernel(x, experts, out, token)
        return out, token
