# honest: rows of the module's table
# task: embedding_module
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cstring>
void lookup(tvm::ffi::TensorView tokens, tvm::ffi::TensorView table, tvm::ffi::TensorView out) {
  const int64_t width = table.size(1);
  for (int64_t i = 0; i < tokens.numel(); ++i)
    std::memcpy(w(out) + i * width, f(table) + static_cast<const int64_t*>(tokens.data_ptr())[i] * width,
                width * sizeof(float));
}
"""
mod = load_inline(name="embedding_module", cpp_sources=SOURCE, functions='lookup')


class ModelNew(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)

    def forward(self, tokens):
        out = torch.empty(*tokens.shape, self.table.weight.shape[1])
        mod.lookup(tokens, self.table.weight, out)
        return out
