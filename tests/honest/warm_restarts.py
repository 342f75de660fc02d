# honest: a sum of squares that begins anew
# task: warm_restarts
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, weight, gradient, squares, step):
        squares = torch.where(step % 500 == 0, torch.zeros_like(squares), squares) + gradient * gradient
        return weight - 0.1 * gradient / (squares.sqrt() + 1e-10), squares
