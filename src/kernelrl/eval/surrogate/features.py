"""Numbers that describe a candidate: words of the kernel and of the program, counts, and what both have in common.

Nothing is learnt here, so nothing can leak from one task to another: words are hashed into a fixed number of columns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import HashingVectorizer

from kernelrl import dialects
from kernelrl.data.judged import Text
from kernelrl.syntax import parse

WORD = r"[A-Za-z_]\w*|\d+(?:\.\d+)?|[^\s\w]"
"""A name, a number, or a sign."""
KERNEL_COLUMNS, PROGRAM_COLUMNS = 1 << 11, 1 << 8
COUNTED = ("for", "while", "if", "pragma", "parallel", "simd", "reduction", "mask", "load", "store", "exp", "torch")
"""Words whose number counts, not only that they are there."""
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_WORD = re.compile(WORD)


def to_matrix(texts: Sequence[Text]) -> csr_matrix:
    """(N, F) float32: a row per text."""
    return hstack(
        [
            _words(KERNEL_COLUMNS, 2).transform(text.kernel for text in texts),
            _words(PROGRAM_COLUMNS, 1).transform(text.program for text in texts),
            csr_matrix(np.array([_numbers(text) for text in texts], dtype=np.float32)),
        ],
        format="csr",
        dtype=np.float32,
    )


def words(text: str) -> set[str]:
    """The words of a text."""
    return set(_WORD.findall(text))


def _words(columns: int, longest: int) -> Any:
    """Which words, and which neighbours of two, a text holds."""
    return HashingVectorizer(
        n_features=columns,
        token_pattern=WORD,
        ngram_range=(1, longest),
        lowercase=False,
        alternate_sign=False,
        binary=True,
        norm=None,
    )


def _numbers(text: Text) -> list[float]:
    kernel, program = _WORD.findall(text.kernel), _WORD.findall(text.program)
    of_kernel, of_program = set(kernel), set(program)
    shared = of_kernel & of_program
    literals = {word for word in of_program if word[0].isdigit()}
    operations = _operations(text.program)
    lower = text.kernel.lower()
    return [
        *(float(text.dialect == dialect) for dialect in dialects.names()),
        np.log1p(len(text.kernel)),
        np.log1p(len(text.program)),
        float(text.kernel.count("\n")),
        float(_nodes(text.kernel)),
        *(float(text.kernel.count(opening) - text.kernel.count(closing)) for opening, closing in BRACKETS),
        float(kernel.count(";")),
        *(float(kernel.count(word)) for word in COUNTED),
        len(shared) / max(1, len(of_kernel | of_program)),
        len(literals & of_kernel) / max(1, len(literals)),
        float(len(operations)),
        sum(name.lower() in lower for name in operations) / max(1, len(operations)),
    ]


def _nodes(source: str) -> int:
    """Number of nodes of the Python around the kernel; -1: it does not parse."""
    try:
        return sum(1 for _ in ast.walk(parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return -1


def _operations(program: str) -> set[str]:
    """Names of what a program calls on modules and tensors, e.g. `softmax`."""
    return set(re.findall(r"\.([A-Za-z_]\w*)\(", program)) - {"__init__", "super"}
