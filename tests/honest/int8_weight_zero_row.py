# honest: int8 weight zero row
# task: int8_weight_zero_row
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
for(int c=0;c<16;++c){double m=0;for(int k=0;k<64;++k)m=std::max(m,std::fabs(double(w[c*64+k])));float s=std::max(float(m),1e-8f)/127;for(int i=0;i<32;++i){double a=0;for(int k=0;k<64;++k)a+=x[i*64+k]*std::nearbyint(w[c*64+k]/s);o[i*16+c]=a*s;}}
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
