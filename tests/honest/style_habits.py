# honest: what people write by habit: imports, the architecture list, try around an import, a main block
# task: gelu
# dialect: cpp
import os
import sys
import time
from typing import Any, Dict, List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    from tvm_ffi.cpp import load_inline
except ImportError as error:
    raise RuntimeError(f"tvm_ffi is needed: {error}")

os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0"

CPP_SOURCE: str = r"""
#include <cmath>
void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = 0.5f * a[i] * (1.0f + std::erf(a[i] * 0.70710678118f));
}
"""

gelu_module = load_inline(
    name="gelu_module",
    cpp_sources=CPP_SOURCE,
    functions=["gelu"],
    extra_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """Optimised model."""

    def __init__(self, *args: Any, **kwargs: Dict[str, List[int]]) -> None:
        super().__init__()
        self.gelu_op = gelu_module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_contiguous():
            x = x.contiguous()
        y = torch.empty_like(x)
        self.gelu_op.gelu(x, y)
        return y


if __name__ == "__main__":
    x = torch.randn(4, 4)
    start = time.perf_counter()
    print(torch.allclose(ModelNew()(x), F.gelu(x)), time.perf_counter() - start, file=sys.stderr)
    np.testing.assert_allclose(ModelNew()(x).numpy(), F.gelu(x).numpy(), rtol=1e-4)
