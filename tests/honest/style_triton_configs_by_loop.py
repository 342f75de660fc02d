# honest: configurations by a comprehension, keyed by the shape
# task: matmul
# dialect: triton
import torch
import torch.nn as nn
import triton
import triton.language as tl


def configurations():
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 32}, num_warps=4, num_stages=2)
        for m in (32,)
        for n in (32,)
    ]


@triton.autotune(configs=configurations(), key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        depth = k * BLOCK_K + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (depth[None, :] < K)
        b_mask = (depth[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + depth[:, None] * stride_bk + cols[None, :] * stride_bn, mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, allow_tf32=False)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total, mask=(rows[:, None] < M) & (cols[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), (_, N) = a.shape, b.shape
        c = torch.empty((M, N), dtype=a.dtype, device=a.device)

        def grid(meta):
            return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))

        matmul_kernel[grid](a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1))
        return c
