"""The end of a process, which Python would take a second of a core for: it takes apart a million objects one by one."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """The process ends with its code as soon as all has run that is registered for the end after this is entered.

    Enter it before torch is imported: what is registered first runs last, and what was registered before does not run.
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
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            with contextlib.suppress(BrokenPipeError):
                stream.flush()
    ctypes.CDLL(None).fflush(None)  # what C has printed
    os._exit(codes[0])
