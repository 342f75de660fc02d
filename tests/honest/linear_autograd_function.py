# honest: an autograd.Function around C++, weights by self.apply, a static method called of its class, a logger
# task: linear
# dialect: cpp
import logging
import math

import torch
from torch import nn
from torch.autograd import Function
from tvm_ffi.cpp import load_inline

logger = logging.getLogger(__name__)

SOURCE = """
using tvm::ffi::TensorView;

void linear(TensorView x, TensorView w, TensorView b, TensorView out, int64_t rows, int64_t block) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* weight = static_cast<const float*>(w.data_ptr());
  const float* bias = static_cast<const float*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = w.size(0), k = w.size(1);
  #pragma omp parallel for
  for (int64_t first = 0; first < rows; first += block)
    for (int64_t i = first; i < std::min(first + block, rows); ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0.0f;
        for (int64_t l = 0; l < k; ++l) sum += in[i * k + l] * weight[j * k + l];
        o[i * n + j] = sum + bias[j];
      }
}
"""
mod = load_inline(name="linear", cpp_sources=SOURCE, functions="linear")


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.rows = math.prod(x.shape[:-1])
        out = x.new_empty(*x.shape[:-1], weight.shape[0])
        mod.linear(x, weight, bias, out, ctx.rows, ModelNew.rows_of_a_block(ctx.rows))
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.flatten(0, -2).T @ x.flatten(0, -2), grad.flatten(0, -2).sum(0)


class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.linear = nn.Linear(*sizes)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    @staticmethod
    def rows_of_a_block(rows):
        return max(1, rows // 16)

    @torch.compiler.disable
    def forward(self, x):
        logger.debug("called with %s", x.shape)
        return LinearFunction.apply(x.contiguous(), self.linear.weight, self.linear.bias)
