"""Engines: where judging happens, on this machine or on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelrl.executor.api import Executor, ExecutorSettings


def make_executor(settings: ExecutorSettings | Mapping[str, Any] | None = None) -> Executor:
    """Start the engine that the settings name.

    The local one is cheap: its processes start with the first request. The one on a Ray cluster waits for its nodes.

    Raises:
        UserError: the settings ask for what is not there: a device, Ray, a cluster, nodes, a shared executor.
    """
    if not isinstance(settings, ExecutorSettings):
        settings = ExecutorSettings.model_validate(settings or {})
    if settings.engine == "ray":
        from kernelrl.executor.engines.ray_engine import RayExecutor

        return RayExecutor(settings)
    from kernelrl.executor.engines.local import LocalExecutor

    return LocalExecutor(settings)
