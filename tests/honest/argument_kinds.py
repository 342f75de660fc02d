# Arguments of every kind: references, numbers, a flag, a text, one that may be missing
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void kernel(const tvm::ffi::TensorView& x, tvm::ffi::TensorView out, int n, double scale, bool relu, const std::string& what,
            tvm::ffi::Optional<tvm::ffi::TensorView> bias) noexcept(false) {
  if (what != "relu" || bias.has_value()) return;
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int i = 0; i < n; ++i) o[i] = static_cast<float>(scale) * (relu && a[i] < 0.0f ? 0.0f : a[i]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out, x.numel(), 2.0, True, "relu", None)
        return out
