"""Windows: the largest, the mean, the generalised mean of them, and resizing, which is the way back."""

import torch
import torch.nn.functional as F
from torch import nn


# %% max_pool2d, level 1
B, C, P = 8, 32, 64
SHAPE_RANGES = {"B": (1, 9), "P": (3, 68)}


class Model(nn.Module):
    """Overlapping 3 x 3 windows at stride 2, with padding."""

    def forward(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% average_pool2d, level 1
B, C, P = 8, 32, 64
SHAPE_RANGES = {"B": (1, 9), "P": (4, 68)}


class Model(nn.Module):
    """Mean over 4 x 4 windows."""

    def forward(self, x):
        return F.avg_pool2d(x, 4)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% adaptive_average, level 1
B, C, P = 8, 64, 38
SHAPE_RANGES = {"B": (1, 9), "P": (7, 44)}


class Model(nn.Module):
    """Mean over 7 x 7 windows of unequal size."""

    def forward(self, x):
        return F.adaptive_avg_pool2d(x, 7)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% max_pool1d_dilated, level 1
B, C, T = 8, 64, 1500
SHAPE_RANGES = {"B": (1, 9), "T": (9, 1600)}


class Model(nn.Module):
    """The largest of five values that stand two apart, at every place."""

    def forward(self, x):
        return F.max_pool1d(x, 5, stride=1, dilation=2)


def get_inputs():
    return [torch.randn(B, C, T)]


# %% bilinear_upsample, level 1
B, C, P = 4, 16, 48
SHAPE_RANGES = {"B": (1, 5), "P": (2, 52)}


class Model(nn.Module):
    """An image of twice the size by bilinear interpolation."""

    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% generalised_mean, level 2
B, C, P = 8, 64, 32
SHAPE_RANGES = {"B": (1, 9), "P": (1, 36)}


class Model(nn.Module):
    """The cubic mean of each channel (GeM), of unit length over channels."""

    def forward(self, x):
        mean = x.clamp(min=1e-3).pow(3).mean(dim=(2, 3))
        return F.normalize(mean.pow(1 / 3), dim=-1)


def get_inputs():
    return [torch.rand(B, C, P, P)]


# %% blur_pool, level 2
B, C, P = 8, 32, 64
SHAPE_RANGES = {"B": (1, 9), "P": (4, 68)}


class Model(nn.Module):
    """Largest of each 2 x 2 neighbourhood, then a binomial filter at stride 2 (anti-aliased pooling)."""

    def __init__(self, channels):
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("weight", (row[:, None] * row).expand(channels, 1, 3, 3).clone())

    def forward(self, x):
        x = F.max_pool2d(x, 2, stride=1)
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), self.weight, stride=2, groups=x.shape[1])


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% mean_and_max, level 2
B, C, P = 8, 64, 40
SHAPE_RANGES = {"B": (1, 9), "P": (1, 44)}


class Model(nn.Module):
    """Mean and maximum of each channel side by side, from one reading of the image."""

    def forward(self, x):
        return torch.cat((x.mean(dim=(2, 3)), x.amax(dim=(2, 3))), dim=1)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% spatial_pyramid, level 3
B, C, P = 4, 32, 32
SHAPE_RANGES = {"B": (1, 5)}


class Model(nn.Module):
    """Three max pools one after the other, all four images side by side, and a mixing of channels (SPPF)."""

    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x):
        levels = [x]
        for _ in range(3):
            levels.append(F.max_pool2d(levels[-1], 5, stride=1, padding=2))
        return F.silu(self.mix(torch.cat(levels, dim=1)))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]
