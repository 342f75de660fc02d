# honest: Adam by lerp
# task: adam_of_decays
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, p, g, m, v, first, second):
        m = torch.lerp(g, m, first)
        v = torch.addcmul(v * second, g, g, value=1 - second)
        return torch.addcdiv(p, m, v.sqrt().add_(1e-8), value=-0.1)
