# honest: torch's own load_inline, written with at::
# task: silu_bf16
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = """
#include <torch/extension.h>
#include <cmath>
at::Tensor silu(at::Tensor x) {
  auto out = at::empty(x.sizes(), x.options());
  auto* a = x.const_data_ptr<at::BFloat16>();
  auto* o = out.mutable_data_ptr<at::BFloat16>();
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) { float v = static_cast<float>(a[i]); o[i] = static_cast<at::BFloat16>(v / (1.0f + std::exp(-v))); }
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu", &silu, "SiLU"); }
"""
ext = load_inline("silu_ext", cpp_sources=src, extra_cflags=["-O3", "-fopenmp"], extra_ldflags=["-fopenmp"], with_cuda=False)
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.silu(x)
