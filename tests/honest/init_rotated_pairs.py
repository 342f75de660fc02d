# honest: a table of complex numbers, made in the constructor as the task makes it
# task: rotated_pairs
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void rotate(tvm::ffi::TensorView x, tvm::ffi::TensorView turns, tvm::ffi::TensorView out) {
  const int64_t batch = x.size(0), pairs = turns.size(0) * turns.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* t = static_cast<const float*>(turns.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < pairs; ++i) {
      const float even = a[2 * (b * pairs + i)], odd = a[2 * (b * pairs + i) + 1];
      o[2 * (b * pairs + i)] = even * t[2 * i] - odd * t[2 * i + 1];
      o[2 * (b * pairs + i) + 1] = even * t[2 * i + 1] + odd * t[2 * i];
    }
}
"""
mod = load_inline(name="rotate", cpp_sources=SOURCE, functions="rotate", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, length, width, base):
        super().__init__()
        turns = torch.outer(torch.arange(length).float(), 1.0 / (base ** (torch.arange(0, width, 2).float() / width)))
        self.register_buffer("turns", torch.view_as_real(torch.polar(torch.ones_like(turns), turns)))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.rotate(x, self.turns, out)
        return out
