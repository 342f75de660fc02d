import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, logits):
        return torch.softmax(logits, -1).argmax(-1)
def get_inputs():
    return [torch.randn(32, 500)]
def get_init_inputs():
    return []
