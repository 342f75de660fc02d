"""Scans: each element depends on those before it."""

import torch
from torch import nn


# %% cumulative_sum, level 1
N, T = 512, 1000
SHAPE_RANGES = {"N": (1, 520), "T": (1, 1000)}


class Model(nn.Module):
    """Running sums of each row."""

    def forward(self, x):
        return x.cumsum(dim=-1)


def get_inputs():
    return [torch.randn(N, T)]


# %% reverse_cumulative_sum, level 1
B, T, D = 8, 256, 128
SHAPE_RANGES = {"B": (1, 9), "T": (1, 260)}


class Model(nn.Module):
    """Sums of all that follows, along the middle axis."""

    def forward(self, x):
        return x.flip(1).cumsum(dim=1).flip(1)


def get_inputs():
    return [torch.randn(B, T, D)]


# %% cumulative_max, level 1
N, T = 512, 1000
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The largest value so far."""

    def forward(self, x):
        return x.cummax(dim=-1).values


def get_inputs():
    return [torch.randn(N, T)]


# %% masked_cumulative_sum, level 1
N, T = 512, 1000
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Running sums of the elements that count."""

    def forward(self, x, mask):
        return (x * mask).cumsum(dim=-1)


def get_inputs():
    return [torch.randn(N, T), torch.rand(N, T) < 0.5]


# %% exponential_average, level 2
N, T = 2048, 64
SHAPE_RANGES = {"N": (1, 2100), "T": (1, 64)}


class Model(nn.Module):
    """Exponential moving average of each series."""

    def forward(self, x):
        state, states = x[:, 0], [x[:, 0]]
        for t in range(1, x.shape[1]):
            state = 0.9 * state + 0.1 * x[:, t]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(N, T)]


# %% discounted_returns, level 2
N, T = 2048, 64
SHAPE_RANGES = {"N": (1, 2100), "T": (1, 64)}


class Model(nn.Module):
    """Discounted returns of episodes, backwards in time; a finished episode begins anew."""

    def forward(self, rewards, done):
        state, states = torch.zeros(rewards.shape[0], dtype=rewards.dtype), []
        for t in reversed(range(rewards.shape[1])):
            state = rewards[:, t] + 0.99 * state * (1 - done[:, t])
            states.append(state)
        return torch.stack(states[::-1], dim=1)


def get_inputs():
    return [torch.randn(N, T), (torch.rand(N, T) < 0.05).float()]


# %% prefix_positions, level 2
N, T = 512, 1000
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Where each kept element goes when the others are left out, and how many there are (stream compaction)."""

    def forward(self, keep):
        counts = keep.long().cumsum(dim=-1)
        return torch.where(keep, counts - 1, -1), counts[:, -1]


def get_inputs():
    return [torch.rand(N, T) < 0.3]


# %% generalised_advantage, level 3
N, T = 2048, 64
SHAPE_RANGES = {"N": (1, 2100), "T": (1, 64)}


class Model(nn.Module):
    """Generalised advantage estimation (Schulman et al. 2016), advantages of mean 0 and deviation 1."""

    def forward(self, rewards, values, last):
        following = torch.cat((values[:, 1:], last[:, None]), dim=1)
        deltas = rewards + 0.99 * following - values
        state, states = torch.zeros_like(last), []
        for t in reversed(range(rewards.shape[1])):
            state = deltas[:, t] + 0.99 * 0.95 * state
            states.append(state)
        advantages = torch.stack(states[::-1], dim=1)
        return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-4)


def get_inputs():
    return [torch.randn(N, T), torch.randn(N, T), torch.randn(N)]


# %% gated_recurrence, level 3
B, T, D = 8, 64, 256
SHAPE_RANGES = {"B": (1, 9), "T": (1, 64)}


class Model(nn.Module):
    """The recurrence of a linear recurrent unit with gates (Griffin's RG-LRU)."""

    def __init__(self, width):
        super().__init__()
        self.decay = nn.Parameter(torch.randn(width))

    def forward(self, x, gate):
        log_a = -8.0 * torch.sigmoid(gate) * nn.functional.softplus(self.decay)
        a = torch.exp(log_a)
        x = torch.sqrt(1 - a * a + 1e-6) * x
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = a[:, t] * state + x[:, t]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(B, T, D), torch.randn(B, T, D)]


def get_init_inputs():
    return [D]


# %% selective_scan, level 3
B, T, D, S = 2, 48, 128, 16
SHAPE_RANGES = {"B": (1, 3), "T": (1, 48)}


class Model(nn.Module):
    """The selective state space of Mamba: a state of 16 for each channel, with a step size for each input."""

    def __init__(self, width, states):
        super().__init__()
        self.log_a = nn.Parameter(torch.rand(width, states))
        self.skip = nn.Parameter(torch.randn(width))

    def forward(self, x, step, b, c):
        step = nn.functional.softplus(step)
        state, outputs = x.new_zeros(x.shape[0], *self.log_a.shape), []
        for t in range(x.shape[1]):
            decay = torch.exp(-step[:, t, :, None] * self.log_a.exp())
            state = decay * state + (step[:, t] * x[:, t])[..., None] * b[:, t, None]
            outputs.append((state * c[:, t, None]).sum(dim=-1))
        return torch.stack(outputs, dim=1) + self.skip * x


def get_inputs():
    return [torch.randn(B, T, D), torch.randn(B, T, D), torch.randn(B, T, S), torch.randn(B, T, S)]


def get_init_inputs():
    return [D, S]
