# honest: half in memory, float in registers, with the compiler's _Float16
# task: gelu_tanh_fp16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void gelu_tanh(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const _Float16* in = static_cast<const _Float16*>(x.data_ptr());
  _Float16* o = static_cast<_Float16*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = static_cast<float>(in[i]);
    const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    o[i] = static_cast<_Float16>(0.5f * v * (1.0f + std::tanh(inner)));
  }
}
"""
mod = load_inline(name="half_float16", cpp_sources=SOURCE, functions="gelu_tanh")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.gelu_tanh(x, out)
        return out
