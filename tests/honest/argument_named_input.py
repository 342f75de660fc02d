# honest: the argument of forward is called input, as in torch's own modules; type hints; a name with an underscore
# task: gelu
# dialect: cpp
import math

import torch
from torch import Tensor, nn
from tvm_ffi.cpp import load_inline

SOURCE: str = """
#include <cmath>

void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double root_half) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = static_cast<float>(0.5 * in[i] * std::erfc(-in[i] * root_half));
}
"""
mod = load_inline(name="gelu", cpp_sources=SOURCE, functions="gelu")


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._root_half = math.sqrt(0.5)

    def forward(self, input: Tensor) -> Tensor:
        output = torch.empty_like(input)
        mod.gelu(input, output, self._root_half)
        return output
