# honest: returns a Python number as the task does
# task: sum_as_number
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void squares(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float sum = 0.0f;
  for (int64_t i = 0; i < x.numel(); ++i) sum += in[i] * in[i];
  *static_cast<float*>(out.data_ptr()) = sum;
}
"""
mod = load_inline(name="sum_as_number_item", cpp_sources=SOURCE, functions="squares")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(1)
        mod.squares(x, out)
        return out.item()
