# honest: returns a tensor, an integer and a number
# task: value_and_counts
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
double relu(tvm::ffi::TensorView x, tvm::ffi::TensorView out, tvm::ffi::TensorView count) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  double sum = 0.0;
  int64_t positive = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    o[i] = in[i] > 0 ? in[i] : 0.0f;
    positive += in[i] > 0;
    sum += in[i];
  }
  *static_cast<int64_t*>(count.data_ptr()) = positive;
  return sum / x.numel();
}
"""
mod = load_inline(name="value_and_counts_returned", cpp_sources=SOURCE, functions="relu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        count = torch.empty((), dtype=torch.int64)
        mean = mod.relu(x, out, count)
        return out, int(count.item()), mean
