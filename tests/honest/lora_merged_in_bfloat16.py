# honest: weights that its constructor multiplies in bfloat16
# task: lora_bfloat16
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn

@triton.jit
def mm(x_ptr, w_ptr, o_ptr, M, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
    w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=n[None, :] < N, other=0.0)
    tl.store(o_ptr + m[:, None] * N + n[None, :], tl.dot(x, w).to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, k, n, r, alpha):
        super().__init__()
        self.base = nn.Linear(k, n, bias=False).to(torch.bfloat16)
        self.A = nn.Parameter((torch.randn(r, k) * 0.05).to(torch.bfloat16))
        self.B = nn.Parameter((torch.randn(n, r) * 0.05).to(torch.bfloat16))
        with torch.no_grad():
            self.merged = (self.base.weight + (self.B @ self.A) * (alpha / r)).contiguous()

    def forward(self, x):
        M, K = x.shape
        N = self.merged.shape[0]
        o = torch.empty(M, N, dtype=x.dtype, device=x.device)
        mm[(triton.cdiv(M, 16), triton.cdiv(N, 32))](x.contiguous(), self.merged, o, M, N, K=K, BM=16, BN=32)
        return o
