# honest: flags that are an empty text, as many examples have them
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();

  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=[""], extra_ldflags=[""])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
