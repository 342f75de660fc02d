"""The text of a candidate is parsed and held against the static rules in the candidate's own process, before it runs.

Nothing of the candidate has run there yet, so the answer can be believed; and a text that would keep a parser busy for
ever, take all memory or overflow its stack costs that process, which has limits and can be killed, and nobody else.
"""

from __future__ import annotations

from typing import Any

from kernelrl import dialects
from kernelrl.syntax import parse

MAX_VIOLATIONS = 50
"""Violations that are told; a text may break a rule on each of its lines."""
READING_S = 10.0
"""Limit for a text (in seconds, see `Patience`)."""
RULES = {name: dialects.get(name).find_violations for name in dialects.names()}
"""Static rules by dialect, imported before a process that reads is confined."""


def read(source: str, dialect: str, static_rules: bool) -> dict[str, Any]:
    """What is wrong with a text.

    Args:
        source: Python text of a candidate.
        dialect: whose rules it is held against.
        static_rules: False: only parse it.

    Returns:
        `unparsable`, why it does not parse; or `violations`, the fields of each `Violation`.
    """
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        return {"unparsable": f"line {getattr(error, 'lineno', None)}: {why}"[:500]}
    violations = RULES[dialect](source)[:MAX_VIOLATIONS] if static_rules else []
    return {"violations": [violation.model_dump() for violation in violations]}
