# honest: arguments are checked, errors are raised and caught
# task: layer_norm
# dialect: cpp
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

source = """
#include <cmath>
void layer_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out, double eps) {
  const float *a = static_cast<const float*>(x.data_ptr()), *g = static_cast<const float*>(w.data_ptr());
  const float* s = static_cast<const float*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = w.size(0), rows = x.numel() / n;
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += a[r * n + i];
    const double mean = sum / n;
    for (int64_t i = 0; i < n; ++i) squares += (a[r * n + i] - mean) * (a[r * n + i] - mean);
    const double scale = 1.0 / std::sqrt(squares / n + eps);
    for (int64_t i = 0; i < n; ++i) o[r * n + i] = static_cast<float>((a[r * n + i] - mean) * scale * g[i] + s[i]);
  }
}
"""

try:
    norm_ops = load_inline(name="norm_ops", cpp_sources=source, functions=["layer_norm"])
except Exception as e:
    print("compiling failed:", e)
    raise


def check_input(x, features, *, contiguous=True):
    """Raise ValueError unless the input fits."""
    if not isinstance(x, torch.Tensor):
        raise TypeError("a tensor is needed")
    if x.size(-1) != features or x.dtype not in (torch.float32,):
        raise ValueError(f"expected float32 with {features} features, got {tuple(x.shape)} of {x.dtype}")
    assert not contiguous or x.is_contiguous(), "must be contiguous"


class ModelNew(nn.Module):
    eps: float = 1e-5

    def __init__(self, features):
        super(ModelNew, self).__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def extra_repr(self):
        return "features={}".format(self.weight.numel())

    def forward(self, x):
        check_input(x, self.weight.shape[0])
        if hasattr(self, "bias") and self.bias is not None:
            y = torch.empty_like(x)
            norm_ops.layer_norm(x, self.weight, self.bias, y, self.eps)
            return y
        else:
            raise NotImplementedError("no bias")
