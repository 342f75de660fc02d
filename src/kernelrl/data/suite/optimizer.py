"""Steps of optimisers: parameters, gradients and states in, their new values out."""

import torch
from torch import nn


# %% axpy, level 1
N = 1_000_000
SHAPE_RANGES = {"N": (1, 1_000_001)}


class Model(nn.Module):
    """A step of gradient descent."""

    def forward(self, parameter, gradient):
        return parameter - 0.01 * gradient


def get_inputs():
    return [torch.randn(N), torch.randn(N)]


# %% momentum, level 1
N = 500_000
SHAPE_RANGES = {"N": (1, 500_001)}


class Model(nn.Module):
    """A step of gradient descent with Nesterov's momentum and weight decay."""

    def forward(self, parameter, gradient, velocity):
        gradient = gradient + 1e-4 * parameter
        velocity = 0.9 * velocity + gradient
        return parameter - 0.01 * (gradient + 0.9 * velocity), velocity


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.randn(N)]


# %% moving_average, level 1
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """An exponential moving average of weights, the new weights in half precision."""

    def forward(self, average, weights):
        return torch.lerp(average, weights.float(), 0.001)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D).half()]


# %% adagrad, level 1
N = 500_000
SHAPE_RANGES = {"N": (1, 500_001)}


class Model(nn.Module):
    """A step of Adagrad."""

    def forward(self, parameter, gradient, squares):
        squares = squares + gradient * gradient
        return parameter - 0.01 * gradient / (squares.sqrt() + 1e-10), squares


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.rand(N) + 0.01]


# %% adamw, level 2
N = 400_000
SHAPE_RANGES = {"N": (1, 400_001)}


class Model(nn.Module):
    """A step of AdamW at a given step number."""

    def forward(self, parameter, gradient, first, second, step):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        mean = first / (1 - 0.9**step)
        scale = (second / (1 - 0.999**step)).sqrt() + 1e-8
        return parameter * (1 - 1e-3 * 0.01) - 1e-3 * mean / scale, first, second


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.randn(N), torch.rand(N) + 0.01, torch.rand(1) * 100 + 1]


# %% lion, level 2
N = 500_000
SHAPE_RANGES = {"N": (1, 500_001)}


class Model(nn.Module):
    """A step of Lion: the sign of an interpolation."""

    def forward(self, parameter, gradient, momentum):
        step = torch.sign(0.9 * momentum + 0.1 * gradient)
        return parameter * (1 - 1e-4) - 1e-4 * step, 0.99 * momentum + 0.01 * gradient


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.randn(N)]


# %% clip_and_step, level 2
N, D, M = 512, 512, 512
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Clip the gradients of three tensors by their common norm, and take a step."""

    def forward(self, weight, bias, table, weight_gradient, bias_gradient, table_gradient):
        gradients = [weight_gradient, bias_gradient, table_gradient]
        norm = torch.stack([gradient.pow(2).sum() for gradient in gradients]).sum().sqrt()
        scale = 0.1 / norm.clamp(min=1.0)
        return (*(p - scale * g for p, g in zip([weight, bias, table], gradients)), norm)


def get_inputs():
    return [*(torch.randn(*size) for _ in range(2) for size in ((D, M), (M,), (N, D)))]


# %% adafactor, level 3
N, D = 512, 512
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """A step of Adafactor: second moments as an outer product of rows and columns, and a clipped update."""

    def forward(self, parameter, gradient, rows, columns):
        squares = gradient**2 + 1e-8
        rows = 0.99 * rows + 0.01 * squares.mean(dim=1)
        columns = 0.99 * columns + 0.01 * squares.mean(dim=0)
        update = gradient * (rows / rows.mean()).rsqrt()[:, None] * columns.rsqrt()
        update = update / (update.pow(2).mean().sqrt()).clamp(min=1.0)
        return parameter - 0.01 * update, rows, columns


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D), torch.rand(N) + 0.1, torch.rand(D) + 0.1]


# %% muon, level 3
N, D = 96, 128


class Model(nn.Module):
    """The update of Muon: momentum, made nearly orthogonal by five Newton-Schulz steps."""

    def forward(self, gradient, momentum):
        momentum = 0.95 * momentum + gradient
        x = gradient + 0.95 * momentum
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            a = x @ x.t()
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        return x, momentum


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]
