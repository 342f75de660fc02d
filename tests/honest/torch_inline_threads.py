# honest: torch's own load_inline, which asks for the number of threads
# task: relu_scale
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = r"""
#include <torch/extension.h>
torch::Tensor f(torch::Tensor x) { auto out = torch::empty_like(x); const float* a = x.data_ptr<float>(); float* o = out.data_ptr<float>(); int nt = std::min<int64_t>(at::get_num_threads(), 8);
#pragma omp parallel for num_threads(nt)
for (int64_t i = 0; i < x.numel(); ++i) o[i] = std::max(0.f, 2 * a[i]); return out; }
"""
ext = load_inline(name="e", cpp_sources=[src], functions=["f"], extra_cflags=["-O3", "-fopenmp"])
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.f(x)
