"""The end of a process, which Python would take a second of a core for: it takes apart a million objects one by one."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """The process ends as soon as all that libraries registered for its end has run, with the code that it exits by.

    Enter it before anything else is imported: what is registered first runs last.
    """
    codes: list[int] = []
    atexit.register(_end, codes)
    try:
        yield
        codes.append(0)
    except SystemExit as exit_:
        if isinstance(exit_.code, int):
            codes.append(exit_.code)
        raise


def _end(codes: list[int]) -> None:
    if not codes:  # an error that nobody expected, of which Python still has to tell
        return
    logging.shutdown()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(codes[0])
