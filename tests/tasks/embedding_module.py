import torch
from torch import nn

WORDS = 50
WIDTH = 24
BATCH = 6
LENGTH = 11


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width, padding_idx=0)

    def forward(self, tokens):
        return self.table(tokens)


def get_inputs():
    return [torch.randint(0, WORDS, (BATCH, LENGTH))]


def get_init_inputs():
    return [WORDS, WIDTH]
