"""Reinforcement learning that trains language models to write kernels."""

from importlib.metadata import version

__version__ = version("kernelrl")
