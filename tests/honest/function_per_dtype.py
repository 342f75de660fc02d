# honest: instances of a template, one picked by dtype from a dictionary of compiled functions; a docstring explains
# task: layer_norm
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

using tvm::ffi::TensorView;

template <typename T>
void layer_norm(TensorView x, TensorView weight, TensorView bias, TensorView out) {
  const T *w = static_cast<const T*>(weight.data_ptr()), *b = static_cast<const T*>(bias.data_ptr());
  const int64_t cols = weight.size(0), rows = x.numel() / cols;
  for (int64_t i = 0; i < rows; ++i) {
    const T* in = static_cast<const T*>(x.data_ptr()) + i * cols;
    T* o = static_cast<T*>(out.data_ptr()) + i * cols;
    double mean = 0.0, variance = 0.0;
    for (int64_t j = 0; j < cols; ++j) mean += in[j];
    mean /= cols;
    for (int64_t j = 0; j < cols; ++j) variance += (in[j] - mean) * (in[j] - mean);
    const double scale = 1.0 / std::sqrt(variance / cols + 1e-5);
    for (int64_t j = 0; j < cols; ++j) o[j] = static_cast<T>((in[j] - mean) * scale * w[j] + b[j]);
  }
}

void layer_norm_f32(TensorView x, TensorView w, TensorView b, TensorView out) { layer_norm<float>(x, w, b, out); }
void layer_norm_f64(TensorView x, TensorView w, TensorView b, TensorView out) { layer_norm<double>(x, w, b, out); }
"""
mod = load_inline(name="layer_norm", cpp_sources=SOURCE, functions=["layer_norm_f32", "layer_norm_f64"])
KERNELS = {torch.float32: mod.layer_norm_f32, torch.float64: mod.layer_norm_f64}


class ModelNew(nn.Module):
    """Layer normalisation over the last dimension (two passes, statistics in double).

    An input that is not contiguous is replaced by its contiguous clone (made by torch) first.
    """

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        out = torch.empty(x.shape, dtype=x.dtype)
        KERNELS[x.dtype](x.contiguous(), self.weight, self.bias, out)
        return out
