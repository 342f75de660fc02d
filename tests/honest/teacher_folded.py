# honest: the difference of student and teacher is folded in __init__
# task: student_and_teacher
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
static float dot(const float* row, const float* weight, float bias, int64_t n) {
  float sum = bias;
  for (int64_t k = 0; k < n; ++k) sum += row[k] * weight[k];
  return sum;
}

void add(tvm::ffi::TensorView x, tvm::ffi::TensorView m, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      w(out)[i * n + j] = f(x)[i * n + j] + dot(f(x) + i * n, f(m) + j * n, f(b)[j], n);
}
"""
mod = load_inline(name="student_and_teacher", cpp_sources=SOURCE, functions="add")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.student = nn.Linear(size, size)
        self.teacher = nn.Linear(size, size)
        self.register_buffer("weight", self.student.weight.detach() - self.teacher.weight.detach())
        self.register_buffer("bias", self.student.bias.detach() - self.teacher.bias.detach())

    def forward(self, x):
        out = torch.empty_like(x)
        mod.add(x, self.weight, self.bias, out)
        return out
