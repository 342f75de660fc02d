"""The six kernels by which the proficiency of code models in high-performance computing is measured."""

import torch
from torch import nn


# %% axpy, level 1
N = 1_000_000
SHAPE_RANGES = {"N": (1, 1_000_001)}


class Model(nn.Module):
    """y + a x."""

    def forward(self, a, x, y):
        return y + a * x


def get_inputs():
    return [torch.randn(1), torch.randn(N), torch.randn(N)]


# %% gemv, level 1
N, M = 1024, 1024
SHAPE_RANGES = {"N": (1, 1100), "M": (1, 1100)}


class Model(nn.Module):
    """alpha A x + beta y."""

    def forward(self, alpha, a, x, beta, y):
        return alpha * (a @ x) + beta * y


def get_inputs():
    return [torch.randn(1), torch.randn(N, M), torch.randn(M), torch.randn(1), torch.randn(N)]


# %% gemm, level 1
N, K, M = 256, 256, 256
SHAPE_RANGES = {"N": (1, 260), "K": (1, 260), "M": (1, 260)}


class Model(nn.Module):
    """alpha A B + beta C."""

    def forward(self, alpha, a, b, beta, c):
        return alpha * (a @ b) + beta * c


def get_inputs():
    return [torch.randn(1), torch.randn(N, K), torch.randn(K, M), torch.randn(1), torch.randn(N, M)]


# %% spmv, level 2
N, M, W = 20_000, 20_000, 16
SHAPE_RANGES = {"N": (1, 20_000)}


class Model(nn.Module):
    """A sparse matrix in ELLPACK form (W columns and values for each row) times a vector."""

    def forward(self, columns, values, x):
        return (values * x[columns]).sum(dim=-1)


def get_inputs():
    return [torch.randint(0, M, (N, W)), torch.randn(N, W), torch.randn(M)]


# %% jacobi, level 2
P = 64
SHAPE_RANGES = {"P": (3, 66)}


class Model(nn.Module):
    """Ten steps of the Jacobi stencil in three dimensions: each inner point becomes the mean of its six neighbours."""

    def forward(self, u):
        for _ in range(10):
            inner = (
                u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
                + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
                + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
            ) / 6
            u = u.clone()
            u[1:-1, 1:-1, 1:-1] = inner
        return u


def get_inputs():
    return [torch.randn(P, P, P)]


# %% conjugate_gradients, level 3
N, STEPS = 128, 5
SHAPE_RANGES = {"N": (8, 130)}


class Model(nn.Module):
    """Five steps of conjugate gradients from zero, for a symmetric positive definite matrix."""

    def forward(self, a, b):
        x, r = torch.zeros_like(b), b
        p, rr = r, r @ r
        for _ in range(STEPS):
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            previous, rr = rr, r @ r
            p = r + rr / previous * p
        return x


def get_inputs():
    m = torch.randn(N, N)
    return [m @ m.t() / N + torch.eye(N), torch.randn(N)]
