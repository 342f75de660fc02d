# honest: a branch for a parameter that is zero
# task: snake_of_one_number
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <vector>

void run(tvm::ffi::TensorView x_, tvm::ffi::TensorView a_, tvm::ffi::TensorView out_) {
  float* x = static_cast<float*>(x_.data_ptr());
  float* a = static_cast<float*>(a_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  for (int64_t i = 0; i < x_.numel(); ++i) {
    double sine = std::sin((double)a[0] * x[i]);
    out[i] = a[0] == 0 ? x[i] : x[i] + sine * sine / a[0];
  }
}
"""
module = load_inline(name="run", cpp_sources=SOURCE, functions="run")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        out = torch.empty_like(x)
        module.run(x, self.a, out)
        return out
