# honest: four elements to a thread, a grid-stride loop
# task: relu_scale
# dialect: cuda
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
__global__ void relu_scale_kernel(const float* a, float* o, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  const int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  for (int64_t i = first; i < n / 4; i += stride) {
    float4 v = reinterpret_cast<const float4*>(a)[i];
    v.x = fmaxf(v.x, 0.0f) * 2.0f;
    v.y = fmaxf(v.y, 0.0f) * 2.0f;
    v.z = fmaxf(v.z, 0.0f) * 2.0f;
    v.w = fmaxf(v.w, 0.0f) * 2.0f;
    reinterpret_cast<float4*>(o)[i] = v;
  }
  for (int64_t i = n / 4 * 4 + first; i < n; i += stride) o[i] = fmaxf(a[i], 0.0f) * 2.0f;
}
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  cudaStream_t stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  relu_scale_kernel<<<256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()), n);
}
"""
mod = load_inline(name="relu_scale", cuda_sources=SOURCE, functions="relu_scale")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.relu_scale(x, out)
        return out
