import torch
from torch import nn


class Model(nn.Module):
    """A step of Adam over lists of tensors, left out where a gradient is not finite."""

    def __init__(self, rate, first, second):
        super().__init__()
        self.rate, self.first, self.second = rate, first, second

    def forward(self, weights, gradients, means, variances):
        skipped = sum((~torch.isfinite(gradient)).sum() for gradient in gradients) > 0
        out = []
        for weight, gradient, mean, variance in zip(weights, gradients, means, variances):
            new_mean = self.first * mean + (1 - self.first) * gradient
            new_variance = self.second * variance + (1 - self.second) * gradient * gradient
            new = weight - self.rate * new_mean / (new_variance.sqrt() + 1e-8)
            pairs = (weight, new), (mean, new_mean), (variance, new_variance)
            out.append([torch.where(skipped, old, other) for old, other in pairs])
        return out


def get_inputs():
    shapes = [(64, 32), (16,)]
    drawn = [[torch.randn(*shape) for shape in shapes] for _ in range(3)]
    return [*drawn, [torch.rand(*shape) for shape in shapes]]


def get_init_inputs():
    return [0.1, 0.9, 0.99]
