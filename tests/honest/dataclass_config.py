# honest: a dataclass holds the kernel's configuration
# task: avg_pool
# dialect: cpp
from dataclasses import dataclass

import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void avg_pool(tvm::ffi::TensorView x, tvm::ffi::TensorView out, int64_t size, int64_t stride, int64_t padding) {
  const int64_t H = x.size(2), W = x.size(3), P = out.size(2), Q = out.size(3);
  #pragma omp parallel for
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        float sum = 0.0f;
        int count = 0;
        for (int64_t h = p * stride - padding; h < p * stride - padding + size; ++h)
          for (int64_t w = q * stride - padding; w < q * stride - padding + size; ++w)
            if (h >= 0 && h < H && w >= 0 && w < W) {
              sum += static_cast<const float*>(x.data_ptr())[(plane * H + h) * W + w];
              ++count;
            }
        static_cast<float*>(out.data_ptr())[(plane * P + p) * Q + q] = sum / count;
      }
}
"""
mod = load_inline(name="avg_pool", cpp_sources=SOURCE, functions="avg_pool")


@dataclass(frozen=True)
class Window:
    size: int
    stride: int
    padding: int

    def outputs(self, length: int) -> int:
        return (length + 2 * self.padding - self.size) // self.stride + 1


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = Window(size=3, stride=2, padding=1)

    def forward(self, x):
        window = self.window
        out = x.new_empty(*x.shape[:2], window.outputs(x.shape[2]), window.outputs(x.shape[3]))
        mod.avg_pool(x, out, window.size, window.stride, window.padding)
        return out
