# honest: weight and velocity are updated in place, as the reference does; the compiler fuses multiply and add
# task: sgd_momentum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void step(tvm::ffi::TensorView weight, tvm::ffi::TensorView gradient, tvm::ffi::TensorView velocity,
          double learning_rate, double momentum) {
  float* w = static_cast<float*>(weight.data_ptr());
  const float* g = static_cast<const float*>(gradient.data_ptr());
  float* v = static_cast<float*>(velocity.data_ptr());
  const float lr = static_cast<float>(learning_rate), mu = static_cast<float>(momentum);
  const int64_t n = weight.numel();
  #pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) {
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * v[i];
  }
}
"""
mod = load_inline(name="sgd", cpp_sources=SOURCE, functions="step")


class ModelNew(nn.Module):
    def __init__(self, learning_rate, momentum):
        super().__init__()
        self.learning_rate = learning_rate
        self.momentum = momentum

    def forward(self, weight, gradient, velocity):
        mod.step(weight, gradient, velocity, self.learning_rate, self.momentum)
        return weight
