"""Which licence a folder of code is under, read from its licence file, and which licences a data set may hold."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from license_expression import ExpressionError, Licensing, get_spdx_licensing

UNKNOWN = "unknown"
"""Stands in a list of licences for those that are not known."""
_FILE = re.compile(r"(licen[cs]e|copying|unlicense)([.-].*)?", re.IGNORECASE)
_SPDX = re.compile(r"SPDX-License-Identifier:[ \t]*([\w.+() \t-]+)")
_RESTRICTED = re.compile(r"\bnon-?commercial\b|\bno-?derivatives?\b|\bcommons clause\b", re.IGNORECASE)
"""With these words the text of a permissive licence has become another one. (The GNU licences use the first.)"""
_PHRASES = (  # the first whose phrases all occur; the more specific ones come first
    ("AGPL-3.0-only", ("gnu affero general public license", "version 3")),
    ("LGPL-3.0-only", ("gnu lesser general public license", "version 3")),
    ("LGPL-2.1-only", ("gnu lesser general public license", "version 2.1")),
    ("GPL-3.0-only", ("gnu general public license", "version 3, 29 june 2007")),
    ("GPL-2.0-only", ("gnu general public license", "version 2, june 1991")),
    ("MPL-2.0", ("mozilla public license", "2.0")),
    ("Apache-2.0", ("apache license", "version 2.0")),
    ("BSD-3-Clause", ("redistribution and use in source and binary forms", "neither the name")),
    ("BSD-2-Clause", ("redistribution and use in source and binary forms",)),
    ("MIT", ("permission is hereby granted, free of charge, to any person obtaining a copy",)),
    ("ISC", ("permission to use, copy, modify, and/or distribute this software for any purpose",)),
    ("CC0-1.0", ("cc0 1.0 universal",)),
    ("Unlicense", ("this is free and unencumbered software released into the public domain",)),
)


@cache
def find_licence(folder: Path, root: Path) -> str | None:
    """SPDX identifier of the licence file nearest to `folder`, from there up to `root`; None: none that is recognised.

    A copy of a GNU licence says `-only`: that later versions are allowed too is said elsewhere, if at all.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and _FILE.fullmatch(path.name))
    if files:
        return next((found for path in files if (found := identify(path.read_text(errors="replace")))), None)
    return None if folder == root or folder == folder.parent else find_licence(folder.parent, root)


def identify(text: str) -> str | None:
    """SPDX expression of a licence's text, e.g. `MIT` or `MIT OR GPL-2.0-only`; None: not recognised."""
    if declared := _SPDX.search(text):
        return normal_form(declared.group(1))
    words = " ".join(text.lower().split())
    found = next((name for name, phrases in _PHRASES if all(phrase in words for phrase in phrases)), None)
    return None if found and "GPL" not in found and _RESTRICTED.search(text) else found


def normal_form(expression: str) -> str | None:
    """An SPDX expression as SPDX writes it; None: it is none, or names a licence that SPDX does not list."""
    parsed = _parse(expression)
    return None if parsed is None else str(parsed)


def is_allowed(expression: str | None, allowed: Collection[str]) -> bool:
    """Whether code under an SPDX expression may be used by who accepts the `allowed` licences.

    Of `A OR B` one is enough, of `A AND B` both are needed; an exception (`WITH`) only adds permissions.

    Args:
        expression: None, or no SPDX expression: not known, which `unknown` among the allowed ones accepts.
    """
    parsed = None if expression is None else _parse(expression)
    return UNKNOWN in allowed if parsed is None else _satisfies(parsed, frozenset(name.lower() for name in allowed))


def _satisfies(parsed: Any, allowed: frozenset[str]) -> bool:
    if isinstance(parsed, _spdx().OR):
        return any(_satisfies(part, allowed) for part in parsed.args)
    if isinstance(parsed, _spdx().AND):
        return all(_satisfies(part, allowed) for part in parsed.args)
    return bool({str(parsed).lower(), str(parsed).partition(" WITH ")[0].lower()} & allowed)


def _parse(expression: str) -> Any:
    try:
        return _spdx().parse(expression, validate=True)
    except (ExpressionError, AttributeError, TypeError):  # what it raises depends on how the text is wrong
        return None


@cache
def _spdx() -> Licensing:
    return get_spdx_licensing()
