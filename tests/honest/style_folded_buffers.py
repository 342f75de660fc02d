# honest: statistics and affine part are folded into two buffers in __init__
# task: batch_norm_eval
# dialect: cpp
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

mod = load_inline(
    name="scale_shift",
    cpp_sources="""
void scale_shift(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView shift, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t planes = x.size(0) * x.size(1), area = x.size(2) * x.size(3), channels = x.size(1);
  #pragma omp parallel for
  for (int64_t p = 0; p < planes; ++p) {
    const float k = static_cast<const float*>(scale.data_ptr())[p % channels];
    const float d = static_cast<const float*>(shift.data_ptr())[p % channels];
    for (int64_t i = p * area; i < (p + 1) * area; ++i) {
      const float v = a[i] * k + d;
      o[i] = v > 0.0f ? v : 0.0f;
    }
  }
}
""",
    functions="scale_shift",
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        norm = nn.BatchNorm2d(channels).eval()
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2.0)
        norm.weight.data.normal_()
        with torch.no_grad():
            scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
            shift = norm.bias - norm.running_mean * scale
        self.register_buffer("scale", scale.detach().clone())
        self.register_buffer("shift", shift.detach().clone())

    @torch.no_grad()
    def forward(self, x):
        out = torch.empty_like(x)
        mod.scale_shift(x, self.scale, self.shift, out)
        return out
