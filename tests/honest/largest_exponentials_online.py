# honest: sums of exponentials in two halves, joined
# task: largest_exponentials
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3, padding=1)

    def forward(self, x):
        first, second = self.conv(x).chunk(2, dim=1)
        most = torch.maximum(first.amax(1, keepdim=True), second.amax(1, keepdim=True))
        total = torch.exp(first - most).sum(1, keepdim=True) + torch.exp(second - most).sum(1, keepdim=True)
        return (most + total.log()).clamp(min=0.0)
