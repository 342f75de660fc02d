"""The text of a candidate is parsed and held against the static rules in the candidate's own process, before it runs.

Nothing of the candidate has run there yet, so the answer can be believed; and a text that would keep a parser busy for
ever, take all memory or overflow its stack costs that process, which has limits and can be killed, and nobody else.
"""

from __future__ import annotations

from typing import Any

from kernelrl import dialects
from kernelrl.dialects import language
from kernelrl.syntax import parse

MAX_VIOLATIONS = 50
"""Violations that are told; a text may break a rule on each of its lines."""
READING_S = 10.0
"""Limit for a text (in seconds, see `Patience`)."""
DIALECTS = {name: dialects.get(name) for name in dialects.names()}
"""Imported before a process that reads is confined."""


def read(source: str, dialect: str, static_rules: bool) -> dict[str, Any]:
    """What is wrong with a text.

    Args:
        source: Python text of a candidate.
        dialect: whose rules it is held against.
        static_rules: False: only parse it.

    Returns:
        `unparsable`, why it does not parse; or `violations`, the fields of each `Violation`, and `unreached`, line and
        column of each function whose body must not run, see `language.Reading`.
    """
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        return {"unparsable": f"line {getattr(error, 'lineno', None)}: {why}"[:500]}
    if not static_rules:
        return {"violations": [], "unreached": None}
    rules = DIALECTS[dialect]
    violations = rules.find_violations(source)[:MAX_VIOLATIONS]
    unreached = language.read(source, may_compute=rules.may_compute).unreached
    return {"violations": [violation.model_dump() for violation in violations], "unreached": sorted(unreached)}
