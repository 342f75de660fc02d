"""Settings of the comparison: the node `decontamination` of the config (`configs/decontamination/default.yaml`)."""

from __future__ import annotations

from typing import Any, Literal

from omegaconf import DictConfig
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from kernelrl.configs import read_node

Kind = Literal["exact", "ast", "graph", "near", "part"]
KINDS: tuple[Kind, ...] = ("exact", "ast", "graph", "near", "part")
"""Strongest first: a pair of tasks is one match, of the first kind that finds it."""


class Settings(BaseModel):
    """How tasks are compared, and which matches cost a training task its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmarks: tuple[str, ...] = ()
    """Files or folders with benchmark tasks (`inputs.read_benchmark`), beside those that the caller passes."""
    known: tuple[str, ...] = ("KernelBench", "MultiKernelBench", "TritonBench", "robust-kbench")
    """Benchmarks whose fingerprints come with kernelrl (`known.py`) and that are compared too."""
    kinds: frozenset[Kind] = frozenset(KINDS)
    drop: frozenset[Kind] = frozenset({"exact", "ast", "graph", "near"})
    """Kinds whose matches are dropped; matches of the others are only reported."""
    sizes: bool = False
    """Whether `ast` and `graph` compare shapes, dtypes and numbers too."""
    min_operators: int = Field(2, ge=1)
    """A match of fewer operators and other sizes is common-place: reported, not dropped."""
    min_part_operators: int = Field(3, ge=1)
    """A benchmark task of fewer operators inside a larger training task is no match."""
    near_threshold: float = Field(0.8, gt=0, le=1)
    """Jaccard similarity from which two programs are near-duplicates."""
    shingle: int = Field(3, ge=1)
    """Tokens in a shingle."""
    permutations: int = Field(128, ge=16)
    """Hash functions of MinHash."""
    workers: int | None = Field(None, ge=1)
    """Processes that trace tasks; None: one per core."""
    timeout_s: float = Field(10.0, gt=0)
    """Processor time (in seconds) that tracing one task may take."""
    memory_mb: int = Field(4096, ge=512)
    """Private memory (in MiB) of a worker."""
    cache_dir: str = "~/.cache/kernelrl"
    """Where fingerprints are kept, below `fingerprints/`."""

    @field_serializer("kinds", "drop")
    def _in_order(self, kinds: frozenset[Kind]) -> list[Kind]:
        return [kind for kind in KINDS if kind in kinds]


INCIDENTAL = {"workers", "timeout_s", "memory_mb", "cache_dir"}
"""Settings that do not change which tasks are dropped."""


def read_settings(cfg: DictConfig) -> Settings:
    """The node `decontamination` of the config.

    Raises:
        UserError: names the value that cannot be used.
    """
    return read_node(Settings, cfg, "decontamination")


def deciding_settings(cfg: DictConfig) -> dict[str, Any]:
    """The settings that change which tasks are dropped, as JSON values."""
    return read_settings(cfg).model_dump(mode="json", exclude=INCIDENTAL)
