# honest: torch's load_inline with a CUDA source, as KernelBench's examples have it
# task: relu_scale
# dialect: cuda
# on a CPU: left out
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = """
__global__ void relu_scale_kernel(const float* a, float* o, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = fmaxf(a[i], 0.0f) * 2.0f;
}
torch::Tensor relu_scale(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int n = x.numel();
  relu_scale_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
mod = load_inline(
    name="relu_scale",
    cpp_sources="torch::Tensor relu_scale(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["relu_scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.relu_scale(x)
