# honest: returns the Python number that the kernel returns
# task: sum_as_number
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
double squares(tvm::ffi::TensorView x) {
  const float* in = static_cast<const float*>(x.data_ptr());
  double sum = 0.0;
  for (int64_t i = 0; i < x.numel(); ++i) sum += in[i] * in[i];
  return sum;
}
"""
mod = load_inline(name="sum_as_number_returned", cpp_sources=SOURCE, functions="squares")


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.squares(x)
