# honest: group norm and swish with accessors and checks, by torch's own load_inline
# task: group_norm_swish
# dialect: cpp
# loader: torch
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <cmath>
torch::Tensor group_norm_swish(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t groups, double eps) {
  TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32, and is ", x.scalar_type());
  auto out = torch::empty_like(x);
  const int64_t N = x.size(0), C = x.size(1), area = x.numel() / (N * C), per = C / groups;
  const float* in = x.data_ptr<float>();
  float* o = out.data_ptr<float>();
  auto w = weight.accessor<float, 1>();
  auto b = bias.accessor<float, 1>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t base = (n * C + g * per) * area, count = per * area;
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < count; ++i) {
        sum += in[base + i];
        squares += static_cast<double>(in[base + i]) * in[base + i];
      }
      const double mean = sum / count, rstd = 1 / std::sqrt(squares / count - mean * mean + eps);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t c = g * per + i / area;
        const float y = static_cast<float>((in[base + i] - mean) * rstd) * w[c] + b[c];
        o[base + i] = y / (1.0f + std::exp(-y));
      }
    }
  return out;
}
"""
mod = load_inline(name="torch_inline_group_norm_swish", cpp_sources=SOURCE, functions=["group_norm_swish"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        norm = self.norm
        return mod.group_norm_swish(x.contiguous(), norm.weight, norm.bias, norm.num_groups, norm.eps)
