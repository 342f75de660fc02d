# honest: one thread for each element
# task: relu_scale
# dialect: cuda
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
__global__ void relu_scale_kernel(const float* a, float* o, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
}
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  cudaStream_t stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  relu_scale_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()), n);
}
"""
mod = load_inline(name="relu_scale", cuda_sources=SOURCE, functions="relu_scale")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.relu_scale(x, out)
        return out
