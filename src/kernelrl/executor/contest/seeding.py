"""Seeding of PyTorch's generators."""

from __future__ import annotations

import torch


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed` does, which takes several times as long where CUDA has not been used."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
