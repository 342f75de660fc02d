# honest: one template, filled in for several functions and joined
# task: min_max
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

HEAD = """
using tvm::ffi::TensorView;
"""
TEMPLATE = """
void row_NAME(TensorView x, TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  TYPE* o = static_cast<TYPE*>(out.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    int64_t best = 0;
    for (int64_t c = 1; c < cols; ++c)
      if (a[r * cols + c] OP a[r * cols + best]) best = c;
    o[r] = RESULT;
  }
}
"""
VARIANTS = [
    ("min", "float", "<", "a[r * cols + best]"),
    ("argmax", "int64_t", ">", "best"),
]
PARTS = [
    TEMPLATE.replace("NAME", name).replace("TYPE", kind).replace("OP", operator).replace("RESULT", result)
    for name, kind, operator, result in VARIANTS
]
POSITIVE = """
void positive(TensorView x, TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  bool* o = static_cast<bool*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] > 0.0f;
}
"""
SOURCE = HEAD + "\n".join(PARTS) + POSITIVE
mod = load_inline(
    name="rows", cpp_sources=SOURCE, functions=[f"row_{variant[0]}" for variant in VARIANTS] + ["positive"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        strides = x.stride()
        x = x.contiguous()
        smallest = x.new_empty(len(x))
        largest = torch.empty(x.size(0), dtype=torch.long, device=x.device)
        positive = torch.empty_strided(x.size(), strides, dtype=torch.bool)
        mod.row_min(x, smallest)
        mod.row_argmax(x, largest)
        flags = torch.empty(x.shape, dtype=torch.bool)
        mod.positive(x, flags)
        positive.copy_(flags)
        return smallest, largest, positive
