# honest: a macro pastes name and type together for a kernel per dtype
# task: logsumexp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

#define DEFINE_LOGSUMEXP(TYPE)                                                        \\
  void logsumexp_##TYPE(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {           \\
    for (int64_t i = 0; i < x.size(0); ++i) {                                         \\
      const TYPE* row = static_cast<const TYPE*>(x.data_ptr()) + i * x.size(1);       \\
      const TYPE top = *std::max_element(row, row + x.size(1));                       \\
      double sum = 0.0;                                                               \\
      for (int64_t j = 0; j < x.size(1); ++j) sum += std::exp(row[j] - top);          \\
      static_cast<TYPE*>(out.data_ptr())[i] = static_cast<TYPE>(top + std::log(sum)); \\
    }                                                                                 \\
  }

DEFINE_LOGSUMEXP(float)
DEFINE_LOGSUMEXP(double)
"""
mod = load_inline(name="logsumexp", cpp_sources=SOURCE, functions=["logsumexp_float", "logsumexp_double"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0])
        if x.dtype == torch.float64:
            mod.logsumexp_double(x, out)
        else:
            mod.logsumexp_float(x, out)
        return out
