# honest: softmax, one block for each row, reductions in shared memory
# task: softmax
# dialect: cuda
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
__global__ void softmax_kernel(const float* a, float* o, int64_t columns) {
  __shared__ float shared[256];
  const float* in = a + blockIdx.x * columns;
  float* out = o + blockIdx.x * columns;
  float best = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) best = fmaxf(best, in[i]);
  shared[threadIdx.x] = best;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + s]);
    __syncthreads();
  }
  best = shared[0];
  __syncthreads();
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(in[i] - best);
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) shared[threadIdx.x] += shared[threadIdx.x + s];
    __syncthreads();
  }
  const float scale = 1.0f / shared[0];
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(in[i] - best) * scale;
}
void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  cudaStream_t stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  softmax_kernel<<<x.size(0), 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()), x.size(1));
}
"""
mod = load_inline(name="softmax", cuda_sources=SOURCE, functions="softmax")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.softmax(x, out)
        return out
