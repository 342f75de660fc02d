"""The actor on a node of a Ray cluster: a local executor and its caches.

Its methods are called by `ray_pool.Pool` alone. It says who it is before it is told anything: a node with another
version of kernelrl is refused without having judged.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from kernelrl import __version__
from kernelrl.executor import machine
from kernelrl.executor.api import ExecutorSettings, NodeHealth, Request, not_known
from kernelrl.executor.building import shipping
from kernelrl.executor.engines.cache_folder import cache_id, judging_code
from kernelrl.executor.engines.local import LocalExecutor
from kernelrl.verdict import Verdict

FETCH_S = 30.0
"""Time to fetch a build that another node made; then it is made again (in seconds)."""


@dataclass(frozen=True)
class Shipment:
    """Builds in Ray's object store."""

    keys: tuple[str, ...]
    packed: ray.ObjectRef[shipping.Packed]


def identity() -> dict[str, str]:
    """What must be the same wherever kernels are judged for one run."""
    return {"kernelrl": __version__, "judging code": judging_code()[:12]}


class Node:
    """Judges on its node."""

    def hello(self) -> dict[str, str]:
        """`identity` of what is installed here."""
        return identity()

    def set_up(self, settings: dict[str, Any], secret: str, judges: bool) -> dict[str, Any]:
        """Make the executor.

        Args:
            settings: of the engine, as JSON.
            secret: from which the seeds of hidden inputs are derived, the same on all nodes.
            judges: False: this node builds ahead.

        Returns:
            `cache`: a name that nodes with a shared cache folder have in common; `gpu_arch` of its GPU.
        """
        self.settings = ExecutorSettings.model_validate(settings)
        if not judges:  # it needs no device
            self.settings = self.settings.model_copy(update={"device": "cpu"})
        self.cache = Path(self.settings.cache_dir).expanduser()
        self.engine = LocalExecutor(self.settings, secret)
        return {
            "cache": cache_id(self.cache),
            "gpu_arch": machine.gpu_arch() if self.settings.device == "cuda" else None,
        }

    def judge(self, request: Request, shipment: Shipment | None, ship: bool) -> tuple[Verdict, Shipment | None]:
        """Judge one request.

        Args:
            request: what to judge.
            shipment: builds that another node made of this candidate.
            ship: offer the builds that are made here to other nodes.
        """
        if shipment is not None:
            self._take(shipment)
        if request.candidate is not None and (lacking := machine.missing_compiler(request.dialect)):
            lacking = f"node {platform.node()}: {lacking}"
            return not_known(request, self.settings.device, "executor", lacking, machine.fingerprint()), None
        [verdict] = self.engine.evaluate([request])
        return verdict, self._offer(verdict) if ship else None

    def build_ahead(self, request: Request, gpu_arch: str | None, ship: bool) -> tuple[Verdict, Shipment | None]:
        """Make the native builds of a candidate that another node will judge."""
        verdict = self.engine.build_ahead(request, gpu_arch)
        return verdict, self._offer(verdict) if ship else None

    def beat(self) -> NodeHealth:
        """A sign of life."""
        [health] = self.engine.health()
        return health

    def _take(self, shipment: Shipment) -> None:
        if shipping.missing(self.cache, shipment.keys):
            try:
                packed = ray.get(shipment.packed, timeout=FETCH_S)
            except (ray.exceptions.RayError, TimeoutError):  # whoever made them is gone: they are made again
                return
            shipping.unpack(self.cache, packed)

    def _offer(self, verdict: Verdict) -> Shipment | None:
        keys = verdict.build.keys if verdict.build and not verdict.cached else ()
        return Shipment(keys, ray.put(shipping.pack(self.cache, keys))) if keys else None
