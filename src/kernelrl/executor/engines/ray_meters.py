"""Figures of the engine for Prometheus, by Ray's metrics (docs/executor-ray.md names them)."""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge, Histogram

SECONDS = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0]


class Meters:
    """What one pool counts."""

    def __init__(self) -> None:
        self._queued = Gauge("kernelrl_queued", "Requests that no node has yet")
        self._in_flight = Gauge("kernelrl_in_flight", "Requests that nodes have")
        self._nodes = Gauge("kernelrl_nodes", "Nodes that are ready to judge")
        self._verdicts = Counter("kernelrl_verdicts", "Verdicts", tag_keys=("status",))
        self._retries = Counter("kernelrl_retries", "Requests that were handed out again")
        self._seconds = Histogram("kernelrl_judge_seconds", "From handing out to the verdict", boundaries=SECONDS)

    def show(self, queued: int, in_flight: int, nodes: int) -> None:
        self._queued.set(queued)
        self._in_flight.set(in_flight)
        self._nodes.set(nodes)

    def ended(self, status: str) -> None:
        self._verdicts.inc(tags={"status": status})

    def judged(self, seconds: float) -> None:
        self._seconds.observe(seconds)

    def retried(self, number: int) -> None:
        if number:
            self._retries.inc(number)
