# honest: makes the text of an error message, with floating-point numbers in it, in every call
# task: relu_small
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <sstream>
#include <string>
#include <stdexcept>
void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double limit) {
  const std::string message = "limit " + std::to_string(limit) + " of " + std::to_string(x.numel()) + " elements";
  const std::string other = "the slope was " + std::to_string(0.5f);
  TVM_FFI_ICHECK(limit > 0 && other.size() > 3) << message << other;
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = in[i] > 0 ? in[i] : 0.0f;
}
"""
mod = load_inline(name="text_of_a_number", cpp_sources=SOURCE, functions="relu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.relu(x, out, 6.0)
        return out
