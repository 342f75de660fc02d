"""What the compiler has made of a kernel's loops: which it vectorised, and why not the others (GCC's -fopt-info)."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import re2

_FILE = "loops"
FLAG = f"-fopt-info-vec-optimized-missed={_FILE}"
"""Has the compiler write its notes into its folder. The code that it makes is the same."""
MAX_BYTES = 1 << 20
MAX_LOOPS = 20
MAX_REASON_CHARS = 100
_VECTORISED = re2.compile(r"kernel\.cpp:(\d{1,6}):\d+: optimized: loop vectorized using (\d{1,4}) byte vectors")
_LEFT = re2.compile(r"kernel\.cpp:(\d{1,6}):\d+: missed: couldn't vectorize loop")
_REASON = re2.compile(r"[^ ]+: missed: +(?:not vectorized: )?(.*)")
_HAS_INNER_LOOPS = "multiple nested loops"


def read(work: Path) -> list[dict[str, Any]]:
    """The loops of the candidate's text, in the order of its lines, as the fields of `verdict.Loop`.

    Loops around other loops are left out, since only innermost ones are vectorised. Where the compiler has no notes,
    there are none.

    Args:
        work: the folder in which a unit was compiled.
    """
    path = work / _FILE
    if not path.exists():
        return []
    with path.open("rb") as file:
        notes = file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
    vectors: dict[int, int] = {}
    reasons: dict[int, str] = {}
    for note, following in zip_longest(notes, notes[1:], fillvalue=""):
        if found := _VECTORISED.match(note):
            line, num_bytes = map(int, found.groups())
            vectors[line] = max(num_bytes, vectors.get(line, 0))
        elif found := _LEFT.match(note):
            reason = _REASON.match(following)
            reasons.setdefault(int(found.group(1)), reason.group(1).rstrip(".") if reason else "")
    loops = {line: {"line": line, "vector_bytes": num_bytes, "reason": ""} for line, num_bytes in vectors.items()}
    for line, reason in reasons.items():
        if reason != _HAS_INNER_LOOPS:
            loops.setdefault(line, {"line": line, "vector_bytes": 0, "reason": reason[:MAX_REASON_CHARS]})
    return [loops[line] for line in sorted(loops)][:MAX_LOOPS]
