# honest: <torch/types.h>, flags that change nothing or optimise while linking, no CUDA sources
# task: relu_scale
# dialect: cpp
# loader: torch
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/types.h>
#include <c10/util/Exception.h>

torch::Tensor relu_scale(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  auto out = torch::empty_like(x);
  const float* a = x.data_ptr<float>();
  float* o = out.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
  return out;
}
"""
mod = load_inline(
    name="relu_scale",
    cpp_sources=SOURCE,
    cuda_sources="",
    functions=["relu_scale"],
    extra_cflags=["-O3", "-fPIC", "-pipe", "-flto"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.relu_scale(x) if not torch.is_grad_enabled() else mod.relu_scale(x.detach())
