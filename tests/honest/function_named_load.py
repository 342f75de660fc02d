# honest: a function of the module that is called load, and one that is read by its name before
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void load(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="load")
load = mod.load


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        load(x, out)
        return out
