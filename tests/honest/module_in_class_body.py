# honest: the compiled module is an attribute of the class
# task: axpby
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline


class ModelNew(nn.Module):
    ops = load_inline(
        name="ops",
        cpp_sources="""
void scale_add_(tvm::ffi::TensorView total, tvm::ffi::TensorView x, double factor) {
  float* t = static_cast<float*>(total.data_ptr());
  const float* in = static_cast<const float*>(x.data_ptr());
  const float f = static_cast<float>(factor);
  #pragma omp simd
  for (int64_t i = 0; i < x.numel(); ++i) t[i] += f * in[i];
}
""",
        functions="scale_add_",
    )

    def forward(self, x, y, alpha, beta, negate):
        total = torch.zeros_like(x)
        sign = -1 if negate else 1
        self.ops.scale_add_(total, x, sign * alpha)
        self.ops.scale_add_(total, y, sign * beta)
        return total
