import torch
import torch.nn as nn


class Model(nn.Module):
    """A step of Adagrad, whose sum of squares begins anew every 500 steps."""

    def forward(self, weight, gradient, squares, step):
        squares = torch.where(step % 500 == 0, torch.zeros_like(squares), squares) + gradient * gradient
        return weight - 0.1 * gradient / (squares.sqrt() + 1e-10), squares


def get_inputs():
    return [torch.randn(64, 64), torch.randn(64, 64), torch.rand(64, 64), torch.tensor(33)]


def get_init_inputs():
    return []
