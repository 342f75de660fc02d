"""What is counted in a candidate's calls, from outside, and what the verdict says of it."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from kernelrl.executor.processes import counters
from kernelrl.executor.processes.counters import Event, NoCounters, accounts, counting
from kernelrl.verdict import Counters

GROUPS = (
    (counters.CYCLES, counters.INSTRUCTIONS),
    (counters.CACHE_REFERENCES, counters.CACHE_MISSES),
    (counters.BRANCHES, counters.BRANCH_MISSES),
)
"""What is counted at once. Every processor with counters has two, so that none is shared and its count estimated."""
TIMES = 3
"""Calls in which each group is counted: the median counts."""
NUM_COUNTED = TIMES * len(GROUPS)
_IN_USE = "the processor's counters are in use, as by another profiler"


class Tally:
    """Counts of some calls of a process, and of some questions that ask nothing, which are taken off.

    Args:
        pid: of the process, which stands when a call begins and when it has ended.
        groups: the events; each call counts the next group, and so does each question that asks nothing.
    """

    def __init__(self, pid: int, groups: Sequence[Sequence[Event]] = GROUPS):
        self._pid = pid
        self._groups = list(groups)
        self._calls: defaultdict[str, list[float]] = defaultdict(list)
        self._nothing: defaultdict[str, list[float]] = defaultdict(list)
        self.uncounted = ""
        """Why some of the processor's counters could not be read; empty: all were."""

    @contextmanager
    def nothing(self) -> Iterator[None]:
        """Count a question that asks nothing."""
        with self._counting(self._nothing):
            yield

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call."""
        with self._counting(self._calls):
            yield

    @contextmanager
    def _counting(self, found: defaultdict[str, list[float]]) -> Iterator[None]:
        before = accounts(self._pid)
        group = self._groups[len(found["cpu_ms"]) % len(self._groups)]
        with contextlib.ExitStack() as stack:
            read = None
            try:
                read = stack.enter_context(counting(self._pid, group))
            except NoCounters as error:
                self.uncounted = self.uncounted or f"{error}: {error.way_out}"
            yield
            counts = read() if read else []
        spent = accounts(self._pid).since(before)
        found["page_faults"].append(spent.page_faults)
        found["context_switches"].append(spent.context_switches)
        found["cpu_ms"].append(spent.cpu_s * 1e3)
        for event, count in zip(group, counts, strict=False):
            if count is None:
                self.uncounted = self.uncounted or _IN_USE
            else:
                found[event.name].append(count)

    def counters(self) -> Counters:
        """The counts of one call."""
        return Counters(**{name: self._of_a_call(name) for name in Counters.model_fields})

    def _of_a_call(self, name: str) -> float | None:
        calls, nothing = self._calls[name], self._nothing[name]
        return max(median(calls) - median(nothing), 0.0) if calls and nothing else None
