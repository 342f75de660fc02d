"""What a person sees while a command runs: one console on stderr, progress with time left, log lines.

Results (tables, JSON) go to stdout through their own commands; everything here goes to stderr.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 10.0
"""Seconds between two progress lines where stderr is no terminal."""


def make_console(*, stderr: bool = False) -> Console:
    """A console that is not folded at 80 columns when its stream goes to a file or a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 120)


console = make_console(stderr=True)


def set_up_logging() -> None:
    """Send `logging` of kernelrl (from INFO) and of libraries (from WARNING) to the console.

    Hugging Face's libraries have a progress bar for every file that they read or write: those are off, unless their
    environment variables say otherwise, and so are warnings that ask their own authors to change something.
    """
    for variable in ("HF_DATASETS_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_PROGRESS_BARS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its retries are many lines, and end in an error of ours
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers|trl|peft|torch\.distributed")
    warnings.filterwarnings("ignore", message="Unsupported layer type")  # PEFT's LN_TUNING on RMSNorm: it works
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true but no accelerator is found")
    handler = RichHandler(console=console, show_path=False, show_time=False, markup=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler], force=True)
    logging.getLogger("kernelrl").setLevel(logging.INFO)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Not TRL's report of a row that is left out, with its whole prompt and task: rewards of None are meant here."""
    return not record.getMessage().startswith("All reward functions returned None")


class Tracker(Protocol):
    """What `track` yields. A note is a short text behind the bar, e.g. `317 correct`."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Count `n` more finished items."""
        ...


@contextmanager
def track(total: int, description: str, done: int = 0) -> Iterator[Tracker]:
    """Show the progress of `total` items, `done` of them from an earlier run: count, elapsed time and time left."""
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console) as progress:
            yield _BarTracker(progress, total, description, done)
    else:
        tracker = _LineTracker(total, description, done)
        yield tracker
        tracker.finish()


class _BarTracker(Tracker):
    def __init__(self, progress: Progress, total: int, description: str, done: int):
        self._progress = progress
        self._task = progress.add_task(description, total=total, completed=done, note="")

    def advance(self, n: int = 1, note: str = "") -> None:
        self._progress.update(self._task, advance=n, note=note)


class _LineTracker(Tracker):
    def __init__(self, total: int, description: str, done: int):
        self._total, self._description, self._done = total, description, done
        self._count, self._shown, self._note = done, -1, ""
        self._started = self._printed = time.monotonic()

    def advance(self, n: int = 1, note: str = "") -> None:
        self._count += n
        self._note = note
        if time.monotonic() - self._printed >= LINE_EVERY_S:
            self._print_line()

    def finish(self) -> None:
        if self._shown != self._count:
            self._print_line()

    def _print_line(self) -> None:
        self._printed, self._shown = time.monotonic(), self._count
        elapsed = self._printed - self._started
        parts = [f"{self._description} {self._count}/{self._total}", f"{_clock(elapsed)} elapsed"]
        if self._done < self._count < self._total:
            parts.append(f"{_clock(elapsed / (self._count - self._done) * (self._total - self._count))} left")
        if self._note:
            parts.append(self._note)
        console.print(", ".join(parts), highlight=False, markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
