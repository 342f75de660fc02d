# task: channels_last
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

static float* floats(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  int64_t batch = x.size(0), channels = x.size(1), pixels = x.size(2) * x.size(3);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        floats(out)[(b * pixels + p) * channels + c] = std::fmax(floats(x)[(b * channels + c) * pixels + p], 0.0f);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, memory_format=torch.channels_last)
        mod.kernel(x, out)
        return out
