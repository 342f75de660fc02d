# honest: all in column
# task: all_in_column
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

void kernel(tvm::ffi::TensorView x_, tvm::ffi::TensorView m_, tvm::ffi::TensorView o_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* m = static_cast<const float*>(m_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
for(int b=0;b<32;++b){bool a=true;for(int t=0;t<64;++t)a=a&&m[t*32+b];double s=0;for(int t=0;t<64;++t)s+=x[t*32+b];o[b]=a?s:-s;}
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, m):
        o = torch.empty(32, dtype=torch.float32)
        mod.kernel(x, m, o)
        return o
