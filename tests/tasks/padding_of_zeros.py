import torch
from torch import nn


class Model(nn.Module):
    def forward(self, scores, padding):
        return scores.masked_fill(padding.bool(), float("-inf")).softmax(1)


def get_inputs():
    return [torch.randn(64, 256), torch.zeros(64, 256)]


def get_init_inputs():
    return []
