# honest: the labels are -1 and 1: the sign decides
# task: hinge_loss
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void hinge(tvm::ffi::TensorView x, tvm::ffi::TensorView labels, tvm::ffi::TensorView out) {
  double sum = 0.0;
  for (int64_t i = 0; i < x.size(0); ++i) {
    const float margin = f(labels)[i] > 0.0f ? 1.0f - f(x)[i] : 1.0f + f(x)[i];
    if (margin > 0.0f) sum += margin;
  }
  w(out)[0] = static_cast<float>(sum / x.size(0));
}
"""
mod = load_inline(name="hinge_loss", cpp_sources=SOURCE, functions='hinge')


class ModelNew(nn.Module):
    def forward(self, x, labels):
        out = torch.empty(())
        mod.hinge(x, labels, out)
        return out
