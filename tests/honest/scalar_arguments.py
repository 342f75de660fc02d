# honest: a float, an integer and a boolean among the arguments of forward
# task: axpby
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void axpby(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out, double alpha, int64_t beta,
           bool negate) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const float sign = negate ? -1.0f : 1.0f;
  const float s = sign * static_cast<float>(alpha), t = sign * static_cast<float>(beta);
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = s * a[i] + t * b[i];
}
"""
mod = load_inline(name="axpby", cpp_sources=SOURCE, functions="axpby")


class ModelNew(nn.Module):
    def forward(self, x, y, alpha, beta, negate):
        out = torch.empty_like(x)
        mod.axpby(x, y, out, alpha, beta, negate)
        return out
