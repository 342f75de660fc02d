# honest: torch's own load_inline, which allocates by zeros_like
# task: sums_twice
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = r"""
#include <torch/extension.h>
std::vector<torch::Tensor> f(torch::Tensor x) { auto o = torch::zeros({x.size(0)}, torch::TensorOptions().dtype(torch::kFloat)); auto p = torch::zeros_like(o); for (int64_t i = 0; i < x.size(0); ++i) { float m = 0, s = 0; for (int64_t j = 0; j < x.size(1); ++j) { float v = x.data_ptr<float>()[i*x.size(1)+j]; s += v; } o.data_ptr<float>()[i] = s; p.data_ptr<float>()[i] = 2*s; } return {o, p}; }
"""
ext = load_inline(name="e", cpp_sources=[src], functions=["f"], extra_cflags=["-O3", "-fopenmp"])
class ModelNew(nn.Module):
    def forward(self, x):
        return tuple(ext.f(x))
