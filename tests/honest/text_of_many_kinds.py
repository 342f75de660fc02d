# Comments, characters, digit separators, raw strings, macros and text that is switched off
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
/* It isn't a system call: "dlopen(x)" and at::relu stand in a comment. */
#define SCALE(x) ((x) * 2.0f)  // don't worry
#if 0
it's never compiled, and neither is "this
#endif
static constexpr int64_t block = 1'024;
static const char quote = '"', tick = '\'';
static const char* note = R"(at::mm(")" "torch::mm(\"";
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  if (note[0] == quote || note[0] == tick) return;
  #pragma omp parallel for
  for (int64_t start = 0; start < n; start += block) {
    const int64_t end = start + block < n ? start + block : n;
    for (int64_t i = start; i < end; ++i) o[i] = a[i] > 0.0f ? SCALE(a[i]) : 0.0f;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
