# honest: running statistics of a converted model, read as they are
# task: converted_batch_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>
#include <vector>

template <typename T>
static T* at(tvm::ffi::TensorView t) { return static_cast<T*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView mean, tvm::ffi::TensorView var, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias,
            tvm::ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t c = i / 63 % 16;
    at<double>(out)[i] = (at<double>(x)[i] - at<double>(mean)[c]) / std::sqrt(at<double>(var)[c] + 1e-5) * at<double>(weight)[c] + at<double>(bias)[c];
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(16).eval()
        self.double()

    def forward(self, x):
        out = torch.empty_like(x)
        norm = self.norm
        mod.kernel(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, out)
        return out
