# honest: variance by two passes, on rows that torch transposes and copies
# task: var_middle
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void var_last(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const int64_t rows = x.size(0), length = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = in + i * length;
    double mean = 0.0, squares = 0.0;
    for (int64_t j = 0; j < length; ++j) mean += row[j];
    mean /= static_cast<double>(length);
    for (int64_t j = 0; j < length; ++j) squares += (row[j] - mean) * (row[j] - mean);
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(squares / (length - 1));
  }
}
"""
mod = load_inline(name="var_two_pass", cpp_sources=SOURCE, functions="var_last")


class ModelNew(nn.Module):
    def forward(self, x):
        batch, length, features = x.shape
        rows = x.transpose(1, 2).contiguous().view(batch * features, length)
        out = x.new_empty(batch * features)
        mod.var_last(rows, out)
        return out.view(batch, 1, features)
