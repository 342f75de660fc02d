import torch
from torch import nn

WORDS = 500
FEATURES = 48
BATCH = 8
LENGTH = 33
SCALE = FEATURES**0.5


class Model(nn.Module):
    def __init__(self, words, features, scale):
        super().__init__()
        self.table = nn.Embedding(words, features)
        self.scale = scale

    def forward(self, index):
        return self.table(index) * self.scale


def get_inputs():
    return [torch.randint(WORDS, (BATCH, LENGTH))]


def get_init_inputs():
    return [WORDS, FEATURES, SCALE]
