# honest: float partial sums of blocks, one slot per thread, by omp_get_thread_num
# task: mse
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <numeric>
#include <omp.h>
#include <vector>

void mse(tvm::ffi::TensorView prediction, tvm::ffi::TensorView target, tvm::ffi::TensorView loss) {
  constexpr int64_t BLOCK = 512;
  const float* p = static_cast<const float*>(prediction.data_ptr());
  const float* t = static_cast<const float*>(target.data_ptr());
  const int64_t n = prediction.numel(), blocks = (n + BLOCK - 1) / BLOCK;
  std::vector<double> partial(omp_get_max_threads(), 0.0);
  #pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block) {
    float sum = 0.0f;
    for (int64_t i = block * BLOCK; i < std::min(n, (block + 1) * BLOCK); ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
    partial[omp_get_thread_num()] += sum;
  }
  const double total = std::accumulate(partial.begin(), partial.end(), 0.0);
  *static_cast<float*>(loss.data_ptr()) = static_cast<float>(total / n);
}
"""
mod = load_inline(
    name="mse_threads", cpp_sources=SOURCE, functions="mse", extra_cflags=["-fopenmp"], extra_ldflags=["-lgomp"]
)


class ModelNew(nn.Module):
    def forward(self, prediction, target):
        loss = prediction.new_empty(1)
        mod.mse(prediction.reshape(-1), target.reshape(-1), loss)
        return loss.view(())
