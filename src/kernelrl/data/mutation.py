"""Mutations: a right kernel with one change in its native code, which most likely makes it wrong.

A boundary, an operator, a constant, a dropped term, an axis, an initial value, a lost synchronisation, a narrower
accumulator, a swapped function. They test the executor (`benchmarks/oracle_mutation.py`) and make repair data
(`data/repairs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Rules = dict[str, list[tuple[str, str | Callable[[re.Match[str]], str]]]]
"""Kind of change -> (pattern, replacement) pairs."""

RULES: Rules = {
    "boundary": [
        (r"(?<=[\w\]) ])<(?= ?\w+[;)])", "<="),
        (r"(?<=< )(\w+)(?=;)", r"\1 - 1"),
        (r"(?<=\w = )0(?=;)", "1"),
        (r"\bmask=mask\b", "mask=None"),
        (r"(\w+) < (n|N|\w*cols|\w*rows|\w*size)\b", r"\1 < \2 - 1"),
    ],
    "operator": [
        (r"(?<=[\w)\]]) \+ (?=[\w(])", " - "),
        (r"(?<=[\w)\]]) - (?=[\w(])", " + "),
        (r"(?<=[\w)\]]) \* (?=[\w(])", " / "),
        (r"(?<=[\w)\]]) / (?=[\w(])", " * "),
        (r"(?<=[\w)\]]) \+= ", " -= "),
        (r"(?<=[\w)\]]) > (?=[\w(])", " < "),
        (r"(?<=[\w)\]]) (<|>) (?=[\w(])", r" \1= "),
    ],
    "constant": [
        (
            r"\b(\d+\.\d+)f?\b",
            lambda m: f"{float(m[1]) * 1.1 + 0.01:.6g}f" if m[0].endswith("f") else f"{float(m[1]) * 1.1 + 0.01:.6g}",
        ),
        (r"\b1e-(\d+)(f?)\b", r"1e-2\2"),
        (r"(?<=[ (\[])([2-9]|\d{2,3})\b(?![.\w])", lambda m: str(int(m[1]) + 1)),
    ],
    "dropped term": [
        (r" [+-] [\w.]+(\[[^\]\n]*\])?(?=[;,)])", ""),
        (r" \* [\w.]+(\[[^\]\n]*\])?(?=[;,)])", ""),
    ],
    "axis": [
        (r"\bsize\(0\)", "size(1)"),
        (r"\bsize\(1\)", "size(0)"),
        (r"\baxis=0\b", "axis=1"),
        (r"\b(rows|R)\b(?=.*\b(cols|C)\b)", "cols"),
    ],
    "initial value": [
        (r"-INFINITY\b", "0.0f"),
        (r'-?float\("-?inf"\)', "0.0"),
        (r"(?<= = )0\.0f?(?=[;,])", "1.0"),
        (r"(?<=other=)0(\.0)?\b", "1.0"),
        (r"(?<=other=)-float\(\"inf\"\)", "0.0"),
    ],
    "lost synchronisation": [
        (r" reduction\([^)]*\)", ""),
        (r"#pragma omp (atomic|critical)[^\n]*", ""),
    ],
    "precision": [
        (r"\bdouble (?=\w+ = )", "_Float16 "),
        (r"\bfloat (?=\w+ = 0)", "_Float16 "),
        (r"tl\.float32\b", "tl.float16"),
    ],
    "function": [
        (r"\bexpf?\(", "exp2f("),
        (r"\btanhf?\(", "sinf("),
        (r"\bsqrtf?\(", "fabsf("),
        (r"\b(std::)?f?max(f?)\(", r"\1fmin\2("),
        (r"\btl\.(exp|sqrt)\(", "tl.abs("),
        (r"\btl\.maximum\(", "tl.minimum("),
        (r"\btl\.sum\(", "tl.max("),
        (r"\btl\.max\(", "tl.min("),
    ],
}

UNBUILT: Rules = {
    "syntax": [
        (r";(?=\n)", ""),
        (r"\bint64_t (?=\w+ = )", "int64 "),
        (r"\bfloat (?=\w+ = )", "flot "),
        (r"\btl\.load\(", "tl.laod("),
    ],
}
"""Changes after which a kernel does not compile."""


@dataclass(frozen=True)
class Change:
    """One change of a kernel."""

    rule: str
    before: str
    after: str
    """The line of native code, stripped."""
    source: str
    """The whole kernel with the change."""


def changes(text: str, dialect: str, rules: Rules = RULES) -> Iterator[Change]:
    """Every single change that rules make in the native code of a kernel, each source once.

    Args:
        text: the kernel's Python source.
        dialect: `cpp` (code in long string literals) or `triton` (functions under `@triton.jit`).
    """
    seen = {text}
    for start, end in _native_spans(text, dialect):
        for rule, patterns in rules.items():
            for pattern, replacement in patterns:
                for match in re.finditer(pattern, text[start:end]):
                    new = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
                    source = text[: start + match.start()] + new + text[start + match.end() :]
                    line = _line(source, start + match.start())
                    if source not in seen and not line.startswith(("//", "#include", "# ")):
                        seen.add(source)
                        yield Change(rule, _line(text, start + match.start()), line, source)


def _native_spans(text: str, dialect: str) -> list[tuple[int, int]]:
    pattern = r'"""(.*?)"""|\'\'\'(.*?)\'\'\'' if dialect == "cpp" else r"@triton\.jit\n(.*?)(?=\n\S|\Z)"
    if dialect == "cpp":
        return [match.span() for match in re.finditer(pattern, text, re.DOTALL)]
    return [
        match.span() for match in re.finditer(r"@triton\.jit\ndef .*?(?=\n\n\n|\n@|\nclass |\nmod|\Z)", text, re.DOTALL)
    ]


def _line(text: str, position: int) -> str:
    return text[text.rfind("\n", 0, position) + 1 :].split("\n", 1)[0].strip()
