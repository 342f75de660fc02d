# honest: a convolution, a norm and a mean of 16-bit numbers, all in float32
# task: conv_norm_mean_bf16
# dialect: python
import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self, channels, features, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, 3)
        self.norm = nn.GroupNorm(groups, features)
        self.to(torch.bfloat16)

    def forward(self, x):
        conv, norm = self.conv, self.norm
        y = F.conv2d(x.float(), conv.weight.float(), conv.bias.float())
        y = F.group_norm(y, norm.num_groups, norm.weight.float(), norm.bias.float(), norm.eps)
        return y.mean((1, 2, 3)).to(x.dtype)
