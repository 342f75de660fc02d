# honest: sums from the end of each row in float32, with dispatch over types
# task: cumsum_reverse
# dialect: cpp
# loader: torch
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
torch::Tensor cumsum_reverse(const torch::Tensor& x) {
  auto input = x.contiguous();
  auto out = torch::empty_like(input);
  const auto rows = input.size(0), columns = input.size(1);
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "cumsum_reverse", [&] {
    const scalar_t* in = input.data_ptr<scalar_t>();
    scalar_t* o = out.data_ptr<scalar_t>();
    for (int64_t r = 0; r < rows; ++r) {
      scalar_t sum = 0;
      for (int64_t c = columns - 1; c >= 0; --c) o[r * columns + c] = sum += in[r * columns + c];
    }
  });
  return out;
}
"""
mod = load_inline(name="torch_inline_cumsum_reverse", cpp_sources=SOURCE, functions=["cumsum_reverse"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.cumsum_reverse(x)
