"""The ways to sample a policy, one file each, and the one function that opens them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import config_dir, read_node, to_dict
from kernelrl.errors import UserError
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.backends.cache import Cached
from kernelrl.policies.backends.settings import EndpointSettings, Settings, TransformersSettings, VllmSettings
from kernelrl.policies.settings import DEFAULT, ModelSettings

SETTINGS: dict[str, type[Settings]] = {
    "transformers": TransformersSettings,
    "vllm": VllmSettings,
    "endpoint": EndpointSettings,
}


def open_policy(
    cfg: DictConfig | Mapping[str, Any] | Settings, model: ModelSettings = DEFAULT, name: str = "policy"
) -> Backend:
    """A policy that is ready to write; close it when it is no longer needed.

    Args:
        cfg: a node of the config as in `configs/policy`, or its settings.
        model: how weights are loaded and asked; a server has its own.
        name: of the node, for messages.

    Raises:
        UserError: names the value that cannot be used: no such backend, model or key, or a library that is missing.
    """
    settings = cfg if isinstance(cfg, Settings) else read_settings(cfg, name)
    policy = _open(settings, model, name)
    return policy if settings.cache_dir is None else Cached(policy, settings.cache_dir, settings.identity)


def read_settings(cfg: DictConfig | Mapping[str, Any], name: str = "policy") -> Settings:
    """The settings in a node of the config.

    Raises:
        UserError: names the value that cannot be used.
    """
    backend = cfg.get("backend")
    kind = _kind(backend, name)
    if cfg.get("model") is None:
        what = "the name of a served model" if backend == "endpoint" else "a folder or a hub id"
        raise UserError(f"{name}.model is not set; give {what}")
    return read_node(kind, cfg, name)


def defaults(backend: str, name: str = "policy") -> dict[str, Any]:
    """The node of the config for a backend, as it is shipped.

    Raises:
        UserError: there is no such backend.
    """
    _kind(backend, name)
    node = OmegaConf.load(config_dir() / "policy" / f"{backend}.yaml")
    assert isinstance(node, DictConfig)
    return to_dict(node)


def _kind(backend: str | None, name: str) -> type[Settings]:
    if backend not in SETTINGS:
        raise UserError(f"{name}.backend={backend!r} is not known; choose {', '.join(SETTINGS)}")
    return SETTINGS[backend]


def _open(settings: Settings, model: ModelSettings, name: str) -> Backend:
    # libraries that take seconds to import, and that a machine may lack
    if isinstance(settings, EndpointSettings):
        from kernelrl.policies.backends.batch import Batch
        from kernelrl.policies.backends.endpoint import Endpoint

        return Endpoint(settings, name) if settings.batch is None else Batch(settings, settings.batch, name)
    if isinstance(settings, VllmSettings):
        from kernelrl.policies.backends.vllm import open_vllm

        return open_vllm(settings, model, name)
    assert isinstance(settings, TransformersSettings)
    from kernelrl.policies.backends.transformers import Transformers

    return Transformers(settings, model)
