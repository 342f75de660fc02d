"""Strategies: how kernels come about over turns; one file each, to train, to evaluate and to search with."""

from __future__ import annotations

from importlib import import_module

from omegaconf import DictConfig

from kernelrl.configs import config_dir, read_node
from kernelrl.errors import UserError
from kernelrl.strategies.protocol import Strategy


def names() -> list[str]:
    """Names of all strategies: those that have a config."""
    return sorted(path.stem for path in (config_dir() / "strategy").glob("*.yaml"))


def make_strategy(cfg: DictConfig) -> Strategy:
    """The strategy of the node `strategy` of the config.

    Raises:
        UserError: there is no such strategy, or names the value that cannot be used.
    """
    if cfg.name not in names():
        raise UserError(f"strategy.name={cfg.name!r} is not known; choose one of {', '.join(names())}")
    kind: type[Strategy] = import_module(f"kernelrl.strategies.{cfg.name}").STRATEGY
    return read_node(kind, cfg, "strategy")
