"""Losses: to a number, or a number per example."""

import torch
import torch.nn.functional as F
from torch import nn


# %% mean_squared_error, level 1
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The mean squared difference of two matrices."""

    def forward(self, x, y):
        return F.mse_loss(x, y)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


# %% cross_entropy, level 1
N, V = 128, 4000
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """Mean cross-entropy of next tokens."""

    def forward(self, logits, targets):
        return F.cross_entropy(logits, targets)


def get_inputs():
    return [torch.randn(N, V), torch.randint(0, V, (N,))]


# %% huber, level 1
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Huber loss of each row: square near zero, straight beyond."""

    def forward(self, x, y):
        return F.huber_loss(x, y, reduction="none").mean(dim=-1)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


# %% kl_divergence, level 1
N, V = 128, 4000
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """Kullback-Leibler divergence of each row's student from its teacher, both given as logits."""

    def forward(self, student, teacher):
        logs = torch.log_softmax(teacher, dim=-1)
        return (logs.exp() * (logs - torch.log_softmax(student, dim=-1))).sum(dim=-1)


def get_inputs():
    return [torch.randn(N, V), torch.randn(N, V)]


# %% triplet_margin, level 1
N, D = 1024, 256
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """How much nearer the other one is than the same one, with a margin of 1."""

    def forward(self, anchor, same, other):
        return F.triplet_margin_loss(anchor, same, other, reduction="none")


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D), torch.randn(N, D)]


# %% focal, level 2
N, C = 8192, 80
SHAPE_RANGES = {"N": (1, 8200)}


class Model(nn.Module):
    """Focal loss of a detector's logits, summed over classes."""

    def forward(self, logits, targets):
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p = torch.sigmoid(logits)
        right = p * targets + (1 - p) * (1 - targets)
        weight = 0.25 * targets + 0.75 * (1 - targets)
        return (weight * (1 - right) ** 2 * loss).sum(dim=-1)


def get_inputs():
    return [torch.randn(N, C), (torch.rand(N, C) < 0.05).float()]


# %% smoothed_cross_entropy, level 2
N, V = 128, 4000
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """Cross-entropy with smoothed labels and a penalty on large normalisers; some tokens do not count."""

    def forward(self, logits, targets, counts):
        normaliser = torch.logsumexp(logits, dim=-1)
        chosen = logits.gather(1, targets[:, None])[:, 0]
        loss = normaliser - 0.9 * chosen - 0.1 * logits.mean(dim=-1) + 1e-4 * normaliser**2
        return (loss * counts).sum() / counts.sum().clamp(min=1.0)


def get_inputs():
    return [torch.randn(N, V), torch.randint(0, V, (N,)), (torch.rand(N) < 0.8).float()]


# %% dice, level 2
B, C, P = 4, 8, 96
SHAPE_RANGES = {"B": (1, 5), "P": (1, 100)}


class Model(nn.Module):
    """One minus the overlap of a predicted and a true segmentation, for each image and class."""

    def forward(self, logits, targets):
        p = torch.softmax(logits, dim=1)
        truth = F.one_hot(targets, logits.shape[1]).permute(0, 3, 1, 2).to(p.dtype)
        overlap = (p * truth).sum(dim=(2, 3))
        return 1 - (2 * overlap + 1) / (p.sum(dim=(2, 3)) + truth.sum(dim=(2, 3)) + 1)


def get_inputs():
    return [torch.randn(B, C, P, P), torch.randint(0, C, (B, P, P))]


# %% contrastive, level 3
N, D = 256, 128
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """Symmetric contrastive loss of pairs of embeddings (CLIP)."""

    def forward(self, images, texts):
        scores = F.normalize(images, dim=-1) @ F.normalize(texts, dim=-1).t() / 0.07
        own = scores.diagonal()
        return ((scores.logsumexp(0) + scores.logsumexp(1)) / 2 - own).mean()


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


# %% clipped_policy, level 3
B, T, V = 4, 64, 1000
SHAPE_RANGES = {"B": (1, 5), "T": (1, 70)}


class Model(nn.Module):
    """The clipped loss of GRPO from logits, over the tokens that count, with a penalty towards a reference."""

    def forward(self, logits, tokens, old, reference, advantages, mask):
        logs = torch.log_softmax(logits, dim=-1).gather(-1, tokens[..., None])[..., 0]
        ratio = torch.exp(logs - old)
        gain = torch.minimum(ratio * advantages[:, None], ratio.clamp(0.8, 1.28) * advantages[:, None])
        away = reference - logs
        loss = -gain + 0.04 * (away.exp() - away - 1)
        return (loss * mask).sum() / mask.sum().clamp(min=1.0)


def get_inputs():
    logits = torch.randn(B, T, V)
    old = -torch.rand(B, T) - 6.5
    mask = (torch.rand(B, T) < 0.9).float()
    return [logits, torch.randint(0, V, (B, T)), old, old - 0.1 * torch.rand(B, T), torch.randn(B), mask]


# %% linear_cross_entropy, level 3
N, D, V = 128, 64, 4000
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """Head and loss of a language model; the logits need never be in memory at once."""

    def __init__(self, width, vocabulary):
        super().__init__()
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x, targets):
        return F.cross_entropy(self.head(x), targets, reduction="none")


def get_inputs():
    return [torch.randn(N, D), torch.randint(0, V, (N,))]


def get_init_inputs():
    return [D, V]
