import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, k, n, r, alpha):
        super().__init__()
        self.base = nn.Linear(k, n, bias=False).to(torch.bfloat16)
        self.A = nn.Parameter((torch.randn(r, k) * 0.05).to(torch.bfloat16))
        self.B = nn.Parameter((torch.randn(n, r) * 0.05).to(torch.bfloat16))
        self.scale = alpha / r
    def forward(self, x):
        return self.base(x) + ((x @ self.A.t()) @ self.B.t()) * self.scale
def get_inputs():
    return [torch.randn(32, 128).to(torch.bfloat16)]
def get_init_inputs():
    return [128, 96, 8, 16]
