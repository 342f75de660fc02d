# honest: the initialisation of nn.Linear, copied, in reset_parameters
# task: linear
# dialect: cpp
import math

import torch
from torch import nn
from torch.nn import init
from tvm_ffi.cpp import load_inline

mod = load_inline(
    name="linear",
    cpp_sources="""
void linear(tvm::ffi::TensorView x, tvm::ffi::TensorView packed, tvm::ffi::TensorView bias, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), depth = x.size(1), cols = out.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(packed.data_ptr());
  const float* b = static_cast<const float*>(bias.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    float* o = static_cast<float*>(out.data_ptr()) + i * cols;
    for (int64_t j = 0; j < cols; ++j) o[j] = b[j];
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t j = 0; j < cols; ++j) o[j] += a[i * depth + k] * w[j * depth + k];
  }
}
""",
    functions="linear",
)


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty((features_out, features_in)))
        self.bias = nn.Parameter(torch.empty(features_out))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        init.uniform_(self.bias, -bound, bound)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.weight.shape[0])
        mod.linear(x, self.weight, self.bias, out)
        return out
