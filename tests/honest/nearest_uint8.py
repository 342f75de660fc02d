# honest: an image of bytes
# task: resize_nearest
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void nearest(tvm::ffi::TensorView image, tvm::ffi::TensorView out) {
  const int64_t H = image.size(2), W = image.size(3), P = out.size(2), Q = out.size(3);
  for (int64_t plane = 0; plane < image.size(0) * image.size(1); ++plane) {
    const uint8_t* in = static_cast<const uint8_t*>(image.data_ptr()) + plane * H * W;
    uint8_t* o = static_cast<uint8_t*>(out.data_ptr()) + plane * P * Q;
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) o[p * Q + q] = in[p * H / P * W + q * W / Q];
  }
}
"""
mod = load_inline(name="nearest", cpp_sources=SOURCE, functions="nearest")

SIZE = (37, 41)


class ModelNew(nn.Module):
    def forward(self, image):
        out = torch.empty((*image.shape[:2], *SIZE), dtype=torch.uint8)
        mod.nearest(image, out)
        return out
