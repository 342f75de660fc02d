# honest: quicksort depth
# task: quicksort_depth
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
static void qs(float*a,int lo,int hi,int d){if(lo>=hi||d==0)return;float p=a[(lo+hi)/2];int i=lo,j=hi;while(i<=j){while(a[i]<p)++i;while(a[j]>p)--j;if(i<=j)std::swap(a[i++],a[j--]);}qs(a,lo,j,d-1);qs(a,i,hi,d-1);}
void kernel(tvm::ffi::TensorView x_, tvm::ffi::TensorView o_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
for(int r=0;r<16;++r){std::copy(x+r*256,x+r*256+256,o+r*256);qs(o+r*256,0,255,256);}
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        o = torch.empty(16, 256, dtype=torch.float32)
        mod.kernel(x, o)
        return o
