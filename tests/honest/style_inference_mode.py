# honest: views and copies under torch.inference_mode
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
FLAGS = ["-O3", "-fno-exceptions", "-funroll-all-loops", "-fvisibility=hidden", "-ffunction-sections"]
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=FLAGS)


class ModelNew(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        rows = x.view(x.shape[0], -1).permute(1, 0).contiguous().mT.reshape(x.shape).flatten(0)
        rows = rows.unflatten(0, x.shape).transpose(0, 1).clone().t().contiguous()
        out = torch.empty_like(rows)
        mod.kernel(rows, out)
        return out.view(-1)[: x.numel()].view_as(x)
