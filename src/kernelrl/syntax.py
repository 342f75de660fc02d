"""Python texts become trees, in any number of threads."""

from __future__ import annotations

import ast

ATTEMPTS = 20
"""Two threads that parse meet in a tenth of all cases at worst."""


def parse(source: str) -> ast.Module:
    """As `ast.parse`, which in CPython 3.11 fails now and then where two threads parse at once.

    It counts the depth of a tree in one place for all threads, and calls the other one's count a `SystemError`.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
