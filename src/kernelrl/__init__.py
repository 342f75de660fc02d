"""Reinforcement learning that trains language models to write kernels."""

__version__ = "0.1.0"
"""The one place where it stands: pyproject.toml reads it."""
