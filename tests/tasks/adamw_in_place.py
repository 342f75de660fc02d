import torch
from torch import nn


class Model(nn.Module):
    """A step of Adam in place: it moves the weights by less than a ten-thousandth of them."""

    def forward(self, weight, gradient, mean, square):
        mean.mul_(0.9).add_(gradient, alpha=0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        weight.addcdiv_(mean, square.sqrt() + 1e-8, value=-1e-5)
        return gradient.square().sum().sqrt()


def get_inputs():
    shape = 64, 256
    return [torch.randn(shape), torch.randn(shape) * 0.01, torch.randn(shape) * 0.001, torch.rand(shape) * 1e-4]


def get_init_inputs():
    return []
