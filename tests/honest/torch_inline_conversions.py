# honest: conversions, options and optional tensors as torch's C++ has them
# task: hinge_loss
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <algorithm>

torch::Tensor hinge(torch::Tensor x, torch::Tensor labels, c10::optional<torch::Tensor> weight) {
  torch::NoGradGuard no_grad;
  auto a = x.flatten().unflatten(0, {-1, 1}).to(x.device(), torch::kFloat32).chunk(1, 0)[0].contiguous().type_as(x);
  auto b = labels.to(a.options().dtype(at::ScalarType::Float)).to(a.scalar_type());
  auto terms = torch::empty(a.sizes(), torch::dtype(torch::kFloat64).device(x.device()));
  const float* w = weight.has_value() ? weight.value().data_ptr<float>() : nullptr;
  const float* p = a.data_ptr<float>();
  const float* q = b.data_ptr<float>();
  double* t = terms.data_ptr<double>();
  double sum = 0;
  for (const auto i : c10::irange(a.numel())) {
    t[i] = std::max(0.0f, 1 - p[i] * q[i]) * (w ? w[i] : 1.0f);
    sum += t[i];
  }
  return torch::tensor(static_cast<float>(sum / a.numel()), x.options());
}
"""
extension = load_inline(name="hinge", cpp_sources=SOURCE, functions=["hinge"])


class ModelNew(nn.Module):
    def forward(self, x, labels):
        return extension.hinge(x, labels, None)
