# honest: scales while it gathers; the table is a bare nn.Parameter
# task: embedding
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void embed(tvm::ffi::TensorView table, tvm::ffi::TensorView index, tvm::ffi::TensorView out, double scale) {
  const int64_t width = table.size(1);
  const float factor = static_cast<float>(scale);
  #pragma omp parallel for
  for (int64_t i = 0; i < index.numel(); ++i) {
    const float* row = static_cast<const float*>(table.data_ptr()) + static_cast<const int64_t*>(index.data_ptr())[i] * width;
    float* o = static_cast<float*>(out.data_ptr()) + i * width;
    #pragma omp simd
    for (int64_t j = 0; j < width; ++j) o[j] = row[j] * factor;
  }
}
"""
mod = load_inline(name="embed", cpp_sources=SOURCE, functions="embed")


class ModelNew(nn.Module):
    def __init__(self, words, features, scale):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(words, features))
        self.scale = scale

    def forward(self, index):
        out = self.weight.new_empty(index.numel(), self.weight.shape[1])
        mod.embed(self.weight, index.flatten(), out, self.scale)
        return out.view(*index.shape, -1)
