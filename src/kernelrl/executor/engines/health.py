"""How an executor is doing, written down every few seconds for whoever watches the run from outside."""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path

from kernelrl.executor.api import Executor
from kernelrl.records import write_json

FOLDER = "health"
EVERY_S = 5.0
"""Time between two reports (in seconds)."""


class Heartbeat:
    """Writes `executor.health()` to `FOLDER/rankN.json` of a stage while its context is open, and a last time then.

    The file holds `time` (Unix, in seconds), `host` and `pid` of the writer, and `nodes`: every `NodeHealth` with the
    time of its report.

    Args:
        executor: who is asked.
        stage: folder of the stage.
        rank: of this process.
        every_s: time between two reports (in seconds).
    """

    def __init__(self, executor: Executor, stage: Path, rank: int = 0, every_s: float = EVERY_S):
        self._executor = executor
        self._file = stage / FOLDER / f"rank{rank}.json"
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="heartbeat")

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()
        self._write()

    def _run(self) -> None:
        while True:
            self._write()
            if self._ended.wait(self._every_s):
                return

    def _write(self) -> None:
        now = round(time.time(), 3)
        nodes = [{"time": now, **node.model_dump()} for node in self._executor.health()]
        write_json(self._file, {"time": now, "host": platform.node(), "pid": os.getpid(), "nodes": nodes})
