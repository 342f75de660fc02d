# honest: causal flash attention with exp2 and an online softmax
# task: attention_causal
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, length, scale, WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    start = tl.program_id(0) * M
    base = tl.program_id(1) * length * WIDTH
    rows = start + tl.arange(0, M)
    d = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + base + rows[:, None] * WIDTH + d[None, :], mask=rows[:, None] < length, other=0.0)
    q = q * (scale * 1.44269504)
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    acc = tl.zeros([M, WIDTH], tl.float32)
    for begin in range(0, start + M, N):
        cols = begin + tl.arange(0, N)
        kept = cols[:, None] < length
        k = tl.load(k_ptr + base + cols[:, None] * WIDTH + d[None, :], mask=kept, other=0.0)
        v = tl.load(v_ptr + base + cols[:, None] * WIDTH + d[None, :], mask=kept, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where((rows[:, None] >= cols[None, :]) & (cols[None, :] < length), scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - new_top[:, None])
        fade = tl.exp2(top - new_top)
        total = total * fade + tl.sum(weights, 1)
        acc = acc * fade[:, None] + tl.dot(weights, v, input_precision="ieee")
        top = new_top
    acc = acc / total[:, None]
    tl.store(out_ptr + base + rows[:, None] * WIDTH + d[None, :], acc, mask=rows[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, 32), batch * heads)
        attention[grid](q, k, v, out, length, width**-0.5, WIDTH=width, M=32, N=16)
        return out
