# honest: class means one absent
# task: class_means_one_absent
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

void kernel(tvm::ffi::TensorView x_, tvm::ffi::TensorView y_, tvm::ffi::TensorView o_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const int64_t* y = static_cast<const int64_t*>(y_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
for(int c=0;c<10;++c){double s[16]={};int n=0;for(int i=0;i<512;++i)if(y[i]==c){++n;for(int d=0;d<16;++d)s[d]+=x[i*16+d];}for(int d=0;d<16;++d)o[c*16+d]=s[d]/std::max(n,1);}
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        o = torch.empty(10, 16, dtype=torch.float32)
        mod.kernel(x, y, o)
        return o
