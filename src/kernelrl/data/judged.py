"""Judged candidates of ledgers, each with the program that it was to replace: what a surrogate learns from.

The program is taken from the record's prompt, which every ledger has; a record whose prompt shows none is left out, and
so is one that nothing is known about (`infrastructure`, `not_run`) or that holds no kernel, which costs no hardware.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrl.candidate import Completion
from kernelrl.policies.prompts import from_text
from kernelrl.query import Query
from kernelrl.records import Record
from kernelrl.verdict import Status

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^class Model\b", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """What a prediction is made from."""

    program: str
    """Source of the task."""
    dialect: str
    kernel: str


@dataclass(frozen=True)
class Example:
    """A text, and what became of it."""

    text: Text
    status: Status
    compiled: bool
    correct: bool
    log_speedup: float | None
    """Natural logarithm of the median speedup; None: not measured."""


def read_examples(runs: Iterable[Path]) -> list[Example]:
    """The examples of all ledgers below the folders; of equal candidates for one program the first one.

    Raises:
        UserError: a folder holds no record.
    """
    found: dict[Text, Example] = {}
    for run in runs:
        for example in to_examples(Query(run).records("ORDER BY time, id")):
            found.setdefault(example.text, example)
    return list(found.values())


def to_examples(records: Iterable[Record]) -> Iterator[Example]:
    """The examples among records."""
    for record in records:
        verdict = record.verdict
        if verdict.status in ("infrastructure", "not_run"):
            continue
        kernel, program = Completion.parse(record.completion).source, find_program(record.prompt)
        if kernel is None or program is None:
            continue
        speedup = verdict.speedup if verdict.correct else None
        yield Example(
            text=Text(program, verdict.dialect, kernel),
            status=verdict.status,
            compiled=verdict.legal and verdict.reached("compiled"),
            correct=verdict.correct,
            log_speedup=math.log(speedup.median) if speedup else None,
        )


def find_program(prompt: str) -> str | None:
    """The program that a prompt of the ledger asks to replace: the last one in its first message; None: there is none.

    Programs that stand before it are examples.
    """
    first = next((message["content"] for message in from_text(prompt) if message["role"] == "user"), "")
    programs = [block for block in _BLOCK.findall(first) if _PROGRAM.search(block)]
    return normalize(programs[-1]) if programs else None


def normalize(program: str) -> str:
    """The program without comments and layout, so that it is the same however a prompt shows it."""
    try:
        return ast.unparse(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program.strip()
