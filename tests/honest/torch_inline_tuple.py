# honest: torch's own load_inline; the kernel allocates its outputs and returns a tuple
# task: max_first
# dialect: cpp
# loader: torch
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <tuple>

std::tuple<torch::Tensor, torch::Tensor> max_first(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2 && x.is_contiguous(), "expected a contiguous matrix");
  const int64_t rows = x.size(0), cols = x.size(1);
  torch::Tensor values = torch::empty({cols}, x.options());
  torch::Tensor indices = torch::zeros({cols}, x.options().dtype(torch::kInt64));
  const float* in = x.data_ptr<float>();
  for (int64_t j = 0; j < cols; ++j) {
    int64_t best = 0;
    for (int64_t i = 1; i < rows; ++i)
      if (in[i * cols + j] > in[best * cols + j]) best = i;
    values.data_ptr<float>()[j] = in[best * cols + j];
    indices.data_ptr<int64_t>()[j] = best;
  }
  return {values, indices};
}
"""
module = load_inline(
    name="max_first",
    cpp_sources=[SOURCE],
    functions=["max_first"],
    extra_cflags=["-O3", "-march=native"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = module.max_first(x)
        return values, indices
