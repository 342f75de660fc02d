# honest: torch's own load_inline with headers of its core, as extensions include them
# task: relu_scale
# dialect: cpp
# loader: torch
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
src = r"""
#include <torch/extension.h>
#include <c10/util/Half.h>
#include <c10/util/irange.h>
torch::Tensor f(torch::Tensor x) { auto out = torch::empty_like(x); const float* a = x.data_ptr<float>(); float* o = out.data_ptr<float>(); 

for (const auto i : c10::irange(x.numel())) o[i] = std::max(0.f, 2 * a[i]); return out; }
"""
ext = load_inline(name="e", cpp_sources=[src], functions=["f"], extra_cflags=["-O3", "-fopenmp"])
class ModelNew(nn.Module):
    def forward(self, x):
        return ext.f(x)
