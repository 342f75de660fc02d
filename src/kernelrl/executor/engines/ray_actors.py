"""What is known of the actors of a pool and of the nodes that they run on."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from kernelrl.errors import KernelRLError

MAX_REASON_CHARS = 200
"""Of what Ray says about a failure; much of it is advice."""


@dataclass(eq=False)
class Place:
    """A node of the cluster, or one that was."""

    name: str
    alive: bool = True
    judged: int = 0
    retried: int = 0
    last_error: str = ""
    failures: int = 0
    """Actors lost since the last answer."""
    start_at: float = 0.0
    """When an actor may be started there (on `time.monotonic`'s clock)."""
    refused: bool = False
    """Another version is installed there."""


@dataclass(eq=False)
class Actor:
    name: str
    place: Place
    node: str
    """Ray's id of its node."""
    judges: bool
    handle: Any
    workers: int
    known: bool = False
    """It has said which version it has."""
    ready: bool = False
    cache: str = ""
    gpu_arch: str | None = None
    beat_due: float = 0.0
    asked: float | None = None
    """When it was asked for a sign of life that has not come yet."""
    progress: float = 0.0
    """When it last answered a request, or got one while it had none."""
    service_retries: int = 0
    """Requests that its own executor had to repeat."""


def kill(actor: Any) -> None:
    """End an actor, if it still is."""
    with contextlib.suppress(RayError, ValueError):
        ray.kill(actor)


def reason(error: BaseException) -> str:
    """One line that says what Ray says in many."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, KernelRLError):
        return str(cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    return text if len(text) <= MAX_REASON_CHARS else f"{text[:MAX_REASON_CHARS]} …"
