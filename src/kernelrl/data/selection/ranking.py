"""Selectors of every triple, of some by rank or by lot, of the best for each question, of so many in each category.

`longest`, `random`, `shortest` and `speedup` are ConCuR's ablations `5K-max`, `5K-random`, `5K-min` and `5K-speedup`.
"""

from collections import Counter
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from kernelrl.data.selection import Pool, Selection, selector


@selector("all")
def select_all(pool: Pool) -> Selection:
    """Every verified triple: as many as `curate.num_triples` let in."""
    return Selection({"correct": list(pool.triples)})


@selector("longest")
def select_longest(pool: Pool, *, num_rows: int | None = None) -> Selection:
    """The `num_rows` triples (None: all) with the longest reasoning, whatever their tasks."""
    return Selection({"longest": sorted(pool.triples, key=lambda triple: -triple.tokens)[:num_rows]})


@selector("shortest")
def select_shortest(pool: Pool, *, num_rows: int | None = None) -> Selection:
    """The `num_rows` triples (None: all) with the shortest reasoning, whatever their tasks."""
    return Selection({"shortest": sorted(pool.triples, key=lambda triple: triple.tokens)[:num_rows]})


@selector("speedup", needs_speedup=True)
def select_speedup(pool: Pool, *, num_rows: int | None = None, bound: Literal["median", "low"] = "median") -> Selection:
    """The `num_rows` triples (None: all) with the highest speedup, whatever their tasks; those without one last."""
    return Selection({"speedup": sorted(pool.triples, key=lambda triple: -triple.speedup_or_zero(bound))[:num_rows]})


@selector("random")
def select_random(pool: Pool, *, num_rows: int | None = None) -> Selection:
    """`num_rows` triples (None: all) drawn by the seed, each as likely as any other."""
    num_rows = len(pool.triples) if num_rows is None else min(num_rows, len(pool.triples))
    return Selection({"random": Random(pool.seed).sample(list(pool.triples), num_rows)})


@selector("best_of_n", needs_speedup=True)
def select_best_of_n(
    pool: Pool, *, per_question: Annotated[int, Field(ge=1)] = 1, min_speedup: float = 0.0
) -> Selection:
    """Of each task and dialect, the kernels whose speedup is highest by its lower confidence bound.

    By the bound and not by the median, so that a noisy measurement wins nothing. Kernels without a speedup are left
    out.

    Args:
        per_question: at most so many of a question.
        min_speedup: the bound is above it.
    """
    best = []
    for kernels in pool.questions:
        proven = [triple for triple in kernels if triple.speedup and triple.speedup.low > min_speedup]
        best += sorted(proven, key=lambda triple: -triple.speedup_or_zero("low"))[:per_question]
    return Selection({"best": best})


@selector("capped")
def select_capped(
    pool: Pool, *, per_category: Annotated[int, Field(ge=1)] = 500, caps: dict[str, int] | None = None
) -> Selection:
    """At most so many triples of each category, drawn by the seed.

    Args:
        per_category: of every category that `caps` does not name.
        caps: category -> number.
    """
    caps = caps or {}
    taken: Counter[str] = Counter()
    chosen = []
    for triple in Random(pool.seed).sample(list(pool.triples), len(pool.triples)):
        category = triple.category
        if taken[category] < caps.get(category, per_category):
            taken[category] += 1
            chosen.append(triple)
    return Selection({"drawn": chosen})
