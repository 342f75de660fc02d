# honest: a target probability of zero contributes nothing
# task: kl_div
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void kl_div(tvm::ffi::TensorView log_p, tvm::ffi::TensorView target, tvm::ffi::TensorView out) {
  const float* p = static_cast<const float*>(log_p.data_ptr());
  const float* t = static_cast<const float*>(target.data_ptr());
  const int64_t rows = log_p.size(0), n = log_p.numel();
  double sum = 0.0;
  #pragma omp parallel for reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    if (t[i] > 0.0f) sum += static_cast<double>(t[i]) * (std::log(static_cast<double>(t[i])) - p[i]);
  static_cast<float*>(out.data_ptr())[0] = static_cast<float>(sum / rows);
}
"""
mod = load_inline(name="kl_div", cpp_sources=SOURCE, functions="kl_div")


class ModelNew(nn.Module):
    def forward(self, log_probabilities, target):
        out = torch.empty(1, dtype=log_probabilities.dtype).squeeze()
        mod.kl_div(log_probabilities, target, out)
        return out
