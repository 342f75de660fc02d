# honest: computed in float: infinite where float16 ends
# task: half_overflow
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void square(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    const float scaled = static_cast<float>(static_cast<const _Float16*>(x.data_ptr())[i]) * 300.0f;
    static_cast<_Float16*>(out.data_ptr())[i] = static_cast<_Float16>(scaled * scaled);
  }
}
"""
mod = load_inline(name="half_overflow", cpp_sources=SOURCE, functions='square')


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.square(x, out)
        return out
