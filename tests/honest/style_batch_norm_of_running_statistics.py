# honest: running statistics folded into a scale and a shift
# task: batch_norm_gelu
# dialect: python
import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels).eval()

    def forward(self, x):
        norm = self.norm
        scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        shift = norm.bias - norm.running_mean * scale
        return F.gelu(x * scale.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1))
