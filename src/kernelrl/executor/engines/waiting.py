"""The requests that wait for a judge, and which of them comes next."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelrl.executor.api import Request


@dataclass(frozen=True)
class Waiting:
    """One request that waits."""

    number: int
    """As its sender counts."""
    request: Request
    ahead: dict[str, str | None] | None
    """What to build for, where that is all; None: judge."""
    arrived: float = field(default_factory=time.monotonic)

    @property
    def task(self) -> str:
        """Digest of its task."""
        return self.request.task.digest


class Line:
    """Requests that wait for one of several judges. Thread-safe.

    The candidates of a task share its reference, which the first of them makes and which one after the other uses. A
    judge therefore takes the first request whose task no other judge has, and the first of all only where none is left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, Waiting] = {}
        self._judged = Counter[str]()

    def add(self, waiting: Waiting) -> None:
        """Put a request at the end."""
        with self._lock:
            self._waiting[waiting.number] = waiting

    def cancel(self, numbers: Iterable[int]) -> None:
        """Forget requests, if they still wait."""
        with self._lock:
            for number in numbers:
                self._waiting.pop(number, None)

    def has(self, task: str) -> bool:
        """Whether a request for the task of that digest waits."""
        with self._lock:
            return any(it.task == task for it in self._waiting.values())

    @contextmanager
    def next(self) -> Iterator[Waiting | None]:
        """The request that is to be judged in this context; None: none waits."""
        with self._lock:
            every = self._waiting.values()
            chosen = next((it for it in every if not self._judged[it.task]), next(iter(every), None))
            if chosen is not None:
                del self._waiting[chosen.number]
                self._judged[chosen.task] += 1
        try:
            yield chosen
        finally:
            if chosen is not None:
                with self._lock:
                    self._judged[chosen.task] -= 1
                    self._judged += Counter()  # those of nobody are forgotten
