"""Judges a request with page faults counted in place of what a processor counts, which a virtual machine may not show.

Settings and a request come as JSON on standard input. The verdict goes to standard output, and before it a line with
what the candidate was asked while it was counted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kernelrl.executor import ExecutorSettings, Request
from kernelrl.executor.engines.service import Service
from kernelrl.executor.judging import pairs
from kernelrl.executor.judging.tally import Tally
from kernelrl.executor.processes.counters import Event
from kernelrl.executor.processes.warming import forkserver_environment, start_forkserver

FAULTS, NOTHING = Event("cycles", 1, 2), Event("instructions", 1, 9)
"""Page faults, and the kernel's event that never comes."""


class SoftwareTally(Tally):
    def __init__(self, pid: int):
        super().__init__(pid, [(FAULTS, NOTHING)])
        self.asked: list[str] = []

    @contextmanager
    def nothing(self) -> Iterator[None]:
        self.asked.append("nothing")
        with super().nothing():
            yield

    @contextmanager
    def call(self) -> Iterator[None]:
        self.asked.append("call")
        with super().call():
            yield

    def counters(self):  # type: ignore[no-untyped-def]
        print(" ".join(self.asked))
        return super().counters()


def main() -> None:
    told = json.load(sys.stdin)
    settings = ExecutorSettings.model_validate(told["settings"] | {"verdict_cache": False, "counters": True})
    pairs.Tally = SoftwareTally  # type: ignore[misc]
    service = Service(settings, start_forkserver(forkserver_environment(settings)))
    print(service.verdict(Request.model_validate(told["request"]), arrived=0.0).model_dump_json(), flush=True)
    os._exit(0)  # with every process that the service has started


if __name__ == "__main__":
    main()
