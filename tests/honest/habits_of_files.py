# honest: what people write at the beginning of a file, and as types, has no effect
# task: features_scaled_rows
# dialect: cpp
"""A file as an editor's templates begin it."""

import argparse
import logging
from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, overload

import einops
import numpy.typing as npt
import scipy.special
import torch
import torch.backends.cudnn
import torch.distributed as dist
from torch import autograd, nn
from tvm_ffi.cpp import load_inline

if TYPE_CHECKING:
    from torch._prims_common import DeviceLikeType

__all__ = ["ModelNew"]
__version__ = "1.0"
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
torch.set_num_threads(8)

SOURCE = r"""
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(w.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r)
    for (int64_t c = 0; c < C; ++c) o[r * C + c] = a[r * C + c] * b[c];
}
"""
Shape: TypeAlias = tuple
blocks: object = 4


def check(x: object, kind: type = torch.Tensor, **more: dict[str, object]) -> "Any":
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(x).__name__}")
    if type(x) is dict:
        raise TypeError(f"expected a tensor, got {type(x)}")
    return x


class ModelNew(nn.Module):
    scale: ClassVar[float] = 1.0

    def __init__(self, features: int, **kwargs: Any) -> None:
        super().__init__()
        self.module: object = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")
        self.draft = nn.Linear(features, 1)
        self.weight = nn.Parameter(torch.rand(features))
        del self.draft

    def forward(self, x: object) -> object:
        x = check(x)
        out = torch.empty_like(x)
        self.module.kernel(x, self.weight, out)
        return out


def main() -> None:
    parser = argparse.ArgumentParser()
    logging.info(parser.parse_args())


if __name__ == "__main__":
    main()
