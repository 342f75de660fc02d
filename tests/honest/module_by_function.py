# honest: a function of the candidate's own builds the modules, two of them from one template of C++ text
# task: statistics
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

TEMPLATE = """
#include <algorithm>

void column_NAME(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  std::copy(in, in + cols, o);
  for (int64_t i = 1; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) o[j] = std::NAME(o[j], in[i * cols + j]);
}
"""
MEAN = """
void mean_count(tvm::ffi::TensorView x, tvm::ffi::TensorView mean, tvm::ffi::TensorView count) {
  double sum = 0.0;
  int64_t positive = 0;
  const float* in = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    sum += in[i];
    positive += in[i] > 0.0f;
  }
  *static_cast<float*>(mean.data_ptr()) = static_cast<float>(sum / x.numel());
  *static_cast<int64_t*>(count.data_ptr()) = positive;
}
"""


def build(name, source):
    return load_inline(name=name, cpp_sources=source, functions=name, extra_cflags=["-O3"])


column_min = build("column_min", TEMPLATE.replace("NAME", "min"))
column_max = build("column_max", TEMPLATE.replace("NAME", "max"))
mean_count = build("mean_count", MEAN)


class ModelNew(nn.Module):
    def forward(self, x):
        low, high = x.new_empty(x.shape[1]), x.new_empty(x.shape[1])
        mean, count = x.new_empty(()), torch.empty((), dtype=torch.int64)
        column_min.column_min(x, low)
        column_max.column_max(x, high)
        mean_count.mean_count(x, mean, count)
        return {"mean": mean, "range": [low, high], "positive": count}
