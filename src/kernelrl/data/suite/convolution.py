"""Convolutions: dense, depthwise, dilated, transposed, in one to three dimensions."""

import torch
import torch.nn.functional as F
from torch import nn


# %% conv2d, level 1
B, C, M, P = 2, 32, 32, 40
SHAPE_RANGES = {"B": (1, 3), "P": (3, 44)}


class Model(nn.Module):
    """A 3 x 3 convolution that keeps the size."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% conv2d_strided, level 1
B, C, M, P = 2, 3, 32, 112
SHAPE_RANGES = {"B": (1, 3), "P": (8, 120)}


class Model(nn.Module):
    """The first layer of a ResNet: 7 x 7, stride 2, three channels."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 7, stride=2, padding=3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% pointwise, level 1
B, C, M, P = 4, 64, 64, 40
SHAPE_RANGES = {"B": (1, 5), "P": (1, 44)}


class Model(nn.Module):
    """A 1 x 1 convolution: a matrix product over channels."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% depthwise, level 1
B, C, P = 4, 64, 56
SHAPE_RANGES = {"B": (1, 5), "P": (3, 60)}


class Model(nn.Module):
    """A 3 x 3 convolution of each channel by itself."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% conv1d_dilated, level 1
B, C, T = 4, 32, 2000
SHAPE_RANGES = {"B": (1, 5), "T": (33, 2100)}


class Model(nn.Module):
    """A convolution over time with holes (WaveNet)."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, dilation=8)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, T)]


def get_init_inputs():
    return [C]


# %% conv_transpose2d, level 1
B, C, M, P = 2, 32, 16, 28
SHAPE_RANGES = {"B": (1, 3), "P": (1, 30)}


class Model(nn.Module):
    """A transposed convolution that doubles the size of an image."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% conv3d, level 1
B, C, M, P = 2, 8, 8, 20
SHAPE_RANGES = {"B": (1, 3), "P": (3, 22)}


class Model(nn.Module):
    """A 3 x 3 x 3 convolution without padding."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, 3)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, C, P, P, P)]


def get_init_inputs():
    return [C, M]


# %% causal_conv1d, level 2
B, C, T, K = 4, 256, 512, 4
SHAPE_RANGES = {"B": (1, 5), "T": (1, 520)}


class Model(nn.Module):
    """A short convolution of each channel that sees no later time, and SiLU (Mamba)."""

    def __init__(self, channels, kernel):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, kernel) * 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        x = F.pad(x, (self.weight.shape[-1] - 1, 0))
        return F.silu(F.conv1d(x, self.weight, self.bias, groups=x.shape[1]))


def get_inputs():
    return [torch.randn(B, C, T)]


def get_init_inputs():
    return [C, K]


# %% conv_norm_relu, level 2
B, C, M, P = 2, 32, 32, 40
SHAPE_RANGES = {"B": (1, 3), "P": (3, 44)}


class Model(nn.Module):
    """A convolution, batch norm by running statistics, and ReLU: the norm can be folded into the weights."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs).eval()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% depthwise_separable, level 2
B, C, M, P = 2, 32, 64, 40
SHAPE_RANGES = {"B": (1, 3), "P": (3, 44)}


class Model(nn.Module):
    """A depthwise and a pointwise convolution, ReLU6 after each (MobileNet)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return F.relu6(self.pointwise(F.relu6(self.depthwise(x))))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C, M]


# %% squeeze_excite, level 3
B, C, P = 4, 64, 40
SHAPE_RANGES = {"B": (1, 5), "P": (3, 44)}


class Model(nn.Module):
    """A depthwise convolution whose channels are weighted by what they hold on average."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.squeeze = nn.Linear(channels, channels // 4)
        self.excite = nn.Linear(channels // 4, channels)

    def forward(self, x):
        x = F.silu(self.conv(x))
        weights = torch.sigmoid(self.excite(F.silu(self.squeeze(x.mean(dim=(2, 3))))))
        return x * weights[..., None, None]


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]
