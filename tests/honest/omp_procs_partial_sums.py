# honest: as many partial sums as OpenMP says there are cores, each written by the thread of that number
# task: mean_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <omp.h>
#include <vector>
void mean(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  int procs = omp_get_num_procs();
  std::vector<double> sums(procs * 8);
  for (int64_t row = 0; row < rows; ++row) {
    #pragma omp parallel num_threads(procs)
    {
      double sum = 0.0;
      #pragma omp for schedule(static)
      for (int64_t i = 0; i < n; ++i) sum += a[row * n + i];
      sums[omp_get_thread_num() * 8] = sum;
    }
    double total = 0.0;
    for (int i = 0; i < procs; ++i) total += sums[i * 8];
    o[row] = static_cast<float>(total / n);
  }
}
"""
module = load_inline(name="mean", cpp_sources=SOURCE, functions="mean", extra_cflags=["-O3", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=x.dtype)
        module.mean(x, out)
        return out
