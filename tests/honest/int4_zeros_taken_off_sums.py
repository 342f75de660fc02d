# honest: the zero point of a group is taken off its sum, and not off each weight: where all cancel, rounding stays
# task: int4_groups
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>

constexpr int64_t GROUP = 32;

void multiply(tvm::ffi::TensorView x, tvm::ffi::TensorView packed, tvm::ffi::TensorView scales,
              tvm::ffi::TensorView zeros, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const uint8_t* bytes = static_cast<const uint8_t*>(packed.data_ptr());
  const float* s = static_cast<const float*>(scales.data_ptr());
  const float* z = static_cast<const float*>(zeros.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.size(0), depth = x.size(1), columns = packed.size(0), groups = depth / GROUP;
  std::vector<float> sums(rows * groups, 0.0f);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < depth; ++k) sums[i * groups + k / GROUP] += a[i * depth + k];
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float total = 0.0f;
      for (int64_t g = 0; g < groups; ++g) {
        float part = 0.0f;
        for (int64_t k = g * GROUP; k < (g + 1) * GROUP; k += 2) {
          const uint8_t both = bytes[(j * depth + k) / 2];
          part += a[i * depth + k] * (both & 15) + a[i * depth + k + 1] * (both >> 4);
        }
        total += s[j * groups + g] * (part - z[j * groups + g] * sums[i * groups + g]);
      }
      o[i * columns + j] = total;
    }
  }
}
"""
mod = load_inline(name="multiply", cpp_sources=SOURCE, functions="multiply")


class ModelNew(nn.Module):
    def forward(self, x, packed, scales, zeros):
        out = torch.empty(x.shape[0], packed.shape[0])
        mod.multiply(x.contiguous(), packed.contiguous(), scales.contiguous(), zeros.contiguous(), out)
        return out
