# honest: lru_cache on the function that compiles
# task: relu_scale
# dialect: cpp
import torch
from functools import lru_cache
from torch import nn
from tvm_ffi.cpp import load_inline
SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) { const float*a=(const float*)x.data_ptr(); float*o=(float*)out.data_ptr(); int64_t n=x.numel();
  #pragma omp parallel for
  for(int64_t i=0;i<n;i++) o[i]=a[i]>0?2*a[i]:0; }

"""
@lru_cache(maxsize=None)
def build():
    return load_inline(name="k", cpp_sources=SOURCE, functions="kernel")

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        build()

    def forward(self, x):
        out = torch.empty_like(x)
        build().kernel(x, out)
        return out
