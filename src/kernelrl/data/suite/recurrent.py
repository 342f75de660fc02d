"""Recurrent networks: cells, and whole sequences through them."""

import torch
from torch import nn


# %% rnn_cell, level 1
N, D, H = 256, 128, 128
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """One step of an Elman network."""

    def __init__(self, width, hidden):
        super().__init__()
        self.cell = nn.RNNCell(width, hidden)

    def forward(self, x, h):
        return self.cell(x, h)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, H)]


def get_init_inputs():
    return [D, H]


# %% gru_cell, level 1
N, D, H = 256, 128, 128
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """One step of gated recurrent units."""

    def __init__(self, width, hidden):
        super().__init__()
        self.cell = nn.GRUCell(width, hidden)

    def forward(self, x, h):
        return self.cell(x, h)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, H)]


def get_init_inputs():
    return [D, H]


# %% lstm_gates, level 1
N, H = 512, 256
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The elementwise half of an LSTM's step: from the four gates and the cell to the next state."""

    def forward(self, gates, cell):
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell


def get_inputs():
    return [torch.randn(N, 4 * H), torch.randn(N, H)]


# %% layer_norm_lstm_cell, level 2
N, D, H = 128, 96, 96
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """One step of an LSTM whose gates and cell are normalised."""

    def __init__(self, width, hidden):
        super().__init__()
        self.inward = nn.Linear(width, 4 * hidden)
        self.around = nn.Linear(hidden, 4 * hidden, bias=False)
        self.gates = nn.LayerNorm(4 * hidden)
        self.cell = nn.LayerNorm(hidden)

    def forward(self, x, h, cell):
        i, f, g, o = self.gates(self.inward(x) + self.around(h)).chunk(4, dim=-1)
        cell = torch.sigmoid(f + 1.0) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.cell(cell)), cell


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, H), torch.randn(N, H)]


def get_init_inputs():
    return [D, H]


# %% minimal_gru, level 2
B, T, D = 4, 48, 64
SHAPE_RANGES = {"B": (1, 5), "T": (1, 48)}


class Model(nn.Module):
    """A sequence through units whose gate depends on the input alone, so that time can be a scan (minGRU)."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width)

    def forward(self, x):
        z, new = torch.sigmoid(self.gate(x)), self.candidate(x)
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = (1 - z[:, t]) * state + z[:, t] * new[:, t]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(B, T, D)]


def get_init_inputs():
    return [D]


# %% delta_rule, level 2
B, H, T, D = 2, 4, 32, 32
SHAPE_RANGES = {"B": (1, 3), "T": (1, 32)}


class Model(nn.Module):
    """A memory that is corrected towards each new pair of key and value (DeltaNet)."""

    def forward(self, q, k, v, beta):
        k = nn.functional.normalize(k, dim=-1)
        state, outputs = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), []
        for t in range(q.shape[2]):
            old = (k[:, :, t, None] @ state)[:, :, 0]
            change = torch.sigmoid(beta[:, :, t, None]) * (v[:, :, t] - old)
            state = state + k[:, :, t, :, None] * change[:, :, None]
            outputs.append((q[:, :, t, None] @ state)[:, :, 0])
        return torch.stack(outputs, dim=2)


def get_inputs():
    return [*(torch.randn(B, H, T, D) for _ in range(3)), torch.randn(B, H, T)]


# %% rwkv_time_mix, level 2
B, T, D = 4, 48, 256
SHAPE_RANGES = {"B": (1, 5), "T": (1, 48)}


class Model(nn.Module):
    """The attention of RWKV 4: a decaying, softmax-like mean over time."""

    def __init__(self, width):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(width))
        self.bonus = nn.Parameter(torch.randn(width))

    def forward(self, k, v):
        a, b = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
        decay, outputs = torch.exp(-self.decay.exp()), []
        for t in range(k.shape[1]):
            now = torch.exp(self.bonus + k[:, t])
            outputs.append((a + now * v[:, t]) / (b + now))
            weight = torch.exp(k[:, t])
            a, b = decay * a + weight * v[:, t], decay * b + weight
        return torch.stack(outputs, dim=1)


def get_inputs():
    return [torch.randn(B, T, D), torch.randn(B, T, D)]


def get_init_inputs():
    return [D]


# %% lstm, level 3
B, T, D, H = 8, 24, 64, 64
SHAPE_RANGES = {"B": (1, 9), "T": (1, 24)}


class Model(nn.Module):
    """A sequence through an LSTM: the states of all times and the last ones."""

    def __init__(self, width, hidden):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, x):
        outputs, (h, c) = self.lstm(x)
        return outputs, h, c


def get_inputs():
    return [torch.randn(B, T, D)]


def get_init_inputs():
    return [D, H]


# %% bidirectional_gru, level 3
B, T, D, H = 8, 24, 64, 64
SHAPE_RANGES = {"B": (1, 9), "T": (1, 24)}


class Model(nn.Module):
    """A sequence through a GRU in both directions, and the mean over time through a linear layer."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, width)

    def forward(self, x):
        return self.head(self.gru(x)[0].mean(dim=1))


def get_inputs():
    return [torch.randn(B, T, D)]


def get_init_inputs():
    return [D, H]
