# honest: stores into its arguments, as the reference changes them
# task: sgd_momentum
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def step(weight_ptr, gradient_ptr, velocity_ptr, n, learning_rate, momentum, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    velocity = tl.load(velocity_ptr + i, mask=mask) * momentum + tl.load(gradient_ptr + i, mask=mask)
    weight = tl.load(weight_ptr + i, mask=mask) - learning_rate * velocity
    tl.store(velocity_ptr + i, velocity, mask=mask)
    tl.store(weight_ptr + i, weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, learning_rate, momentum):
        super().__init__()
        self.learning_rate, self.momentum = learning_rate, momentum

    def forward(self, weight, gradient, velocity):
        n = weight.numel()
        step[(triton.cdiv(n, 8192),)](weight, gradient, velocity, n, self.learning_rate, self.momentum, BLOCK=8192)
        return weight
