# honest: every way to say to which type, device and layout a tensor is to be converted
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] != a[i] ? a[i] : a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        same = x.to(x.device, torch.float32)
        y = same.to(x).to(device=x.device, dtype=torch.float32).to("cpu", torch.float32)
        y = y.view(1, 1, *x.shape).to(memory_format=torch.channels_last)
        y = y.unsqueeze(0).to(memory_format=torch.channels_last_3d).contiguous(memory_format=torch.channels_last_3d)
        y = y.type_as(same).to(x.dtype).contiguous().view(x.shape)
        out = torch.empty_like(y)
        mod.kernel(y, out)
        return out
