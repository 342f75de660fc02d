import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    """The token that a language model's head finds most likely."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(128, 300, bias=False)

    def forward(self, x):
        return self.head(F.layer_norm(x, (128,))).argmax(-1)


def get_inputs():
    return [torch.randn(3, 128)]


def get_init_inputs():
    return []
