# honest: sizes by functools.reduce, lists by itertools.chain, a named tuple, and what TorchScript would read
# task: relu_scale
# dialect: cpp
import functools
import itertools
import operator
from collections import namedtuple

import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double scale) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] < 0 ? 0.0f : a[i] * static_cast<float>(scale);
}
"""
mod = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale", extra_cflags=["-O3", "-fopenmp"])

Options = namedtuple("Options", ["scale", "min_elements"])


class ModelNew(nn.Module):
    __constants__ = ["options"]

    def __init__(self):
        super().__init__()
        self.options = Options(2.0, min_elements=1)

    def forward(self, x):
        outer, inner = [x.shape[0]], x.shape[1:]
        out = x.new_empty(list(itertools.chain.from_iterable((outer, inner))))
        if functools.reduce(operator.mul, x.shape, 1) >= self.options.min_elements:
            mod.relu_scale(x, out, self.options.scale)
        return out
