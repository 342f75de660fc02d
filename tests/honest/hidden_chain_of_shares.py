# honest: a hidden chain in probabilities instead of their logarithms, of sum 1 after each step
# task: hidden_chain
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, states, symbols):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(states, states))
        self.emissions = nn.Parameter(torch.randn(states, symbols))
        self.start = nn.Parameter(torch.randn(states))

    def forward(self, observed):
        stay = torch.softmax(self.transitions, dim=1)
        seen = torch.softmax(self.emissions, dim=1)
        alpha = torch.softmax(self.start, 0) * seen[:, observed[:, 0]].T
        for step in range(1, observed.shape[1]):
            alpha = alpha @ stay * seen[:, observed[:, step]].T
            alpha = alpha / alpha.sum(1, keepdim=True)
        return alpha / alpha.sum(1, keepdim=True)
