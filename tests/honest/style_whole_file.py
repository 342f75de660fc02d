# honest: the reference, get_inputs and test code stand in the file, unused
# task: softmax
# dialect: cpp
import torch
import torch.nn as nn
import torch.nn.functional as F
from tvm_ffi.cpp import load_inline


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, dim=-1)


batch_size = 64
dim = 777


def get_inputs():
    x = torch.rand(batch_size, dim).cuda()
    return [x]


def get_init_inputs():
    return []  # No special initialization inputs needed


def reference_softmax(x):
    e = (x - x.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


softmax_cpp = """
#include <cmath>
#include <algorithm>
void softmax_forward(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = static_cast<const float*>(x.data_ptr()) + r * cols;
    float* o = static_cast<float*>(out.data_ptr()) + r * cols;
    float best = a[0];
    for (int64_t c = 1; c < cols; ++c) best = std::max(best, a[c]);
    float sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) sum += o[c] = std::exp(a[c] - best);
    for (int64_t c = 0; c < cols; ++c) o[c] /= sum;
  }
}
"""
softmax = load_inline(name="softmax", cpp_sources=softmax_cpp, functions=["softmax_forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.softmax = softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        self.softmax.softmax_forward(x.contiguous(), result)
        return result
