# honest: cosine classifier zero weight
# task: cosine_classifier_zero_weight
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

void kernel(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView o_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* w = static_cast<const float*>(w_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
for(int i=0;i<32;++i)for(int c=0;c<16;++c){double xx=0,ww=0,d=0;for(int k=0;k<64;++k){xx+=double(x[i*64+k])*x[i*64+k];ww+=double(w[c*64+k])*w[c*64+k];d+=double(x[i*64+k])*w[c*64+k];}o[i*16+c]=d/std::max(std::sqrt(xx),1e-12)/std::max(std::sqrt(ww),1e-12);}
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 64))

    def forward(self, x):
        o = torch.empty(32, 16, dtype=torch.float32)
        mod.kernel(x, self.w, o)
        return o
