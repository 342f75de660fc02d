"""Kernels that differ in structure."""

from __future__ import annotations

import re
from typing import Annotated

from datasketch import MinHash, MinHashLSH
from pydantic import Field

from kernelrl.data.selection import Pool, Selection, selector

NUM_PERMUTATIONS = 128
SHINGLE = 5
"""Tokens in a row that are compared as one."""
KEYWORDS = frozenset(
    "if else elif for while return in and or not def class with import from const auto static inline void bool int "
    "long float double int32_t int64_t size_t".split()
)
_COMMENT = re.compile(r"#(?!\s*(?:include|pragma|define|if|endif|else))[^\n]*")
_C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\w\s]")


@selector("diverse")
def select_diverse(pool: Pool, *, max_similarity: Annotated[float, Field(gt=0, le=1)] = 0.8) -> Selection:
    """Each triple, in order, whose kernel is not near to one that was chosen before.

    Nearness is the Jaccard similarity of the two kernels' shingles of normalised tokens, estimated by MinHash
    (Broder 1997): comments, the names of variables and the values of numbers do not count, what is called does.

    Args:
        max_similarity: kernels that are at least so similar count as one.
    """
    index = MinHashLSH(threshold=max_similarity, num_perm=NUM_PERMUTATIONS)
    sketches: dict[int, MinHash] = {}
    chosen = []
    for triple in pool.triples:
        sketch = MinHash(num_perm=NUM_PERMUTATIONS)
        sketch.update_batch([shingle.encode() for shingle in shingles(pool.kernels[triple.index], triple.dialect)])
        if all(sketch.jaccard(sketches[near]) < max_similarity for near in index.query(sketch)):
            index.insert(triple.index, sketch)
            sketches[triple.index] = sketch
            chosen.append(triple)
    return Selection({"distinct": chosen})


def shingles(kernel: str, dialect: str) -> set[str]:
    """The kernel's structure: its runs of normalised tokens."""
    if dialect in ("cpp", "cuda"):  # elsewhere `//` divides
        kernel = _C_COMMENT.sub(" ", kernel)
    tokens = _TOKEN.findall(_COMMENT.sub(" ", kernel))
    following = [*tokens[1:], ""]
    normal = [_normalise(token, after) for token, after in zip(tokens, following, strict=True)]
    return {" ".join(normal[start : start + SHINGLE]) for start in range(max(1, len(normal) - SHINGLE + 1))}


def _normalise(token: str, following: str) -> str:
    if token[0].isdigit():
        return "0"
    if token.isidentifier() and following not in ("(", ".", ":", "<") and token not in KEYWORDS:
        return "v"
    return token
