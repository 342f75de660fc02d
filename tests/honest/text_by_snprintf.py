# honest: makes the text of an error message in every call, by snprintf and by a stream
# task: relu_small
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cstdio>
#include <sstream>
#include <string>
void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double limit) {
  char text[80];
  std::snprintf(text, sizeof text, "limits %.3f of %lld elements", limit, static_cast<long long>(x.numel()));
  std::ostringstream stream;
  stream << text << " and " << limit * 2 << " is twice it";
  TVM_FFI_ICHECK(limit > 0) << stream.str();
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = in[i] > 0 ? in[i] : 0.0f;
}
"""
mod = load_inline(name="text_by_snprintf", cpp_sources=SOURCE, functions="relu")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.relu(x, out, 6.0)
        return out
