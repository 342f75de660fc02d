# honest: torch's own load_inline, with a class that only the whole of torch's headers declares
# task: sums_twice
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = r"""
#include <torch/extension.h>
using Scales = torch::OrderedDict<std::string, int64_t>;
std::vector<torch::Tensor> f(torch::Tensor x) { Scales scales; scales.insert("second", 2); const int64_t second = scales["second"]; auto o = torch::zeros({x.size(0)}, x.options()); auto p = torch::zeros({x.size(0)}, x.options()); for (int64_t i = 0; i < x.size(0); ++i) { float s = 0; for (int64_t j = 0; j < x.size(1); ++j) s += x.data_ptr<float>()[i*x.size(1)+j]; o.data_ptr<float>()[i] = s; p.data_ptr<float>()[i] = second*s; } return {o, p}; }
"""
ext = load_inline(name="e", cpp_sources=[src], functions=["f"], extra_cflags=["-O3", "-fopenmp"])
class ModelNew(nn.Module):
    def forward(self, x):
        return tuple(ext.f(x))
