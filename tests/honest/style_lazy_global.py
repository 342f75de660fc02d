# honest: the compiled module is kept in a global that is filled at its first use
# task: relu_scale
# dialect: cpp
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

_module = None


def _get_module():
    """Compile once."""
    global _module
    if _module is None:
        _module = load_inline(
            name="relu_scale",
            cpp_sources="""
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for simd
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
""",
            functions=["relu_scale"],
        )
    return _module


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        _get_module()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        _get_module().relu_scale(x, out)
        return out
