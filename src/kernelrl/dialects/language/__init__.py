"""The small language that a candidate's Python is written in.

An allow-list: what it does not name is refused, with the line and what to write instead.

- `vocabulary.py`: its words;
- `plain.py`: the plain form of a file, which is what is read and what runs;
- `syntax.py`: its forms, and limits of size;
- `names.py`: what a name stands for;
- `flow.py`, `meaning.py`: what an expression may be, and what it uses;
- `rules.py`: which uses are allowed where;
- `kernels.py`: the bodies of Triton kernels.

Not covered: operators between tensors (`x + y`), which are found where they reach PyTorch's dispatcher, and whatever
native code does.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from kernelrl.candidate import ENTRY_POINT
from kernelrl.dialects.language import syntax
from kernelrl.dialects.language.kernels import find_in_kernels
from kernelrl.dialects.language.meaning import Meaning
from kernelrl.dialects.language.names import resolve
from kernelrl.dialects.language.plain import plain
from kernelrl.dialects.language.rules import calls_kernel, compiles, find_uses
from kernelrl.syntax import parse
from kernelrl.verdict import Violation

MAX_VIOLATIONS = 50
"""How many violations are reported: the first ones by line."""


@dataclass(frozen=True)
class Reading:
    """What a candidate is, by its text.

    Attributes:
        violations: of the language's rules, by line.
        tree: its syntax; None where it is too large to be looked at.
        compiles: whether it compiles native code.
        kernels: names of its Triton kernels.
        calls_kernel: whether `forward` reaches a call of either.
        unreached: line and column of each function that nothing calls, but for kernels. Not all rules hold there, so
            that their bodies must not run.
    """

    violations: list[Violation]
    tree: ast.Module | None = None
    compiles: bool = False
    kernels: frozenset[str] = frozenset()
    calls_kernel: bool = False
    unreached: frozenset[tuple[int, int]] = frozenset()


@lru_cache(maxsize=1)
def read(source: str, *, may_compute: bool) -> Reading:
    """Read a candidate, in time linear in its length. Who asks again gets the same answer.

    Args:
        source: Python text.
        may_compute: whether the library's operators are allowed anywhere (dialect `python`).

    Raises:
        SyntaxError, ValueError: the text is no Python.
    """
    if too_long := syntax.find_size(source):
        return Reading(too_long)
    try:
        whole = parse(source)
    except (RecursionError, MemoryError):
        return Reading([Violation(rule="outside_language", evidence="nested too deeply to be read")])
    if too_deep := syntax.find_depth(whole):
        return Reading(too_deep)
    tree = plain(whole)
    names = resolve(tree)
    found = [*syntax.find_forms(tree), *names.violations]
    meaning = Meaning(tree, names)
    found += [*meaning.violations, *find_uses(meaning, may_compute), *find_in_kernels(meaning.kernels, tree, names)]
    if names.left_over:
        found += [names.left_over[name] for name in names.left_over.keys() & meaning.names_in_use(tree)]
    if ENTRY_POINT not in meaning.classes:
        found.append(Violation(rule="no_kernel", evidence=f"there is no class {ENTRY_POINT} at the top level"))
    kernels = frozenset(kernel.name for kernel in meaning.kernels)
    return Reading(_in_order(found), tree, compiles(meaning), kernels, calls_kernel(meaning), meaning.unreached)


def _in_order(violations: list[Violation]) -> list[Violation]:
    return sorted(set(violations), key=lambda each: (each.line or 0, each.rule))[:MAX_VIOLATIONS]
