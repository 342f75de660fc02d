# honest: imports and includes that are not needed, as models write them by habit
# task: mse
# dialect: cpp
import math
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <iostream>
#include <vector>

void mse(tvm::ffi::TensorView prediction, tvm::ffi::TensorView target, tvm::ffi::TensorView out) {
  auto p = static_cast<const float*>(prediction.data_ptr());
  auto t = static_cast<const float*>(target.data_ptr());
  double sum = 0.0;
  for (int64_t i = 0; i < prediction.numel(); i++) sum += std::pow(static_cast<double>(p[i]) - t[i], 2);
  static_cast<float*>(out.data_ptr())[0] = sum / prediction.numel();
}
"""

mse_module = load_inline(name="mse", cpp_sources=SOURCE, functions=["mse"], extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        out = torch.empty((), dtype=torch.float32)
        mse_module.mse(prediction.contiguous(), target.contiguous(), out)
        return out
