# honest: convolution as a product of unfolded windows
# task: conv2d
# dialect: python
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, stride=2, padding=1)

    def forward(self, x):
        height, width = [(size - 1) // 2 + 1 for size in x.shape[2:]]
        windows = F.unfold(x, kernel_size=3, stride=2, padding=1)
        weight = self.conv.weight.flatten(1)
        out = torch.matmul(weight, windows) + self.conv.bias[:, None]
        return out.view(x.shape[0], -1, height, width)
