"""Fingerprints of well-known benchmarks that come with kernelrl: hashes and operator graphs, not their programs.

`benchmarks/fingerprint_known.py` writes the file from local copies. A training task is compared with them as with any
benchmark, except that near-duplicates are scored by their MinHash signatures: there is no text to count shingles in.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kernelrl.data.decontamination.fingerprint import Fingerprint, TracedGraph
from kernelrl.data.decontamination.inputs import Benchmark
from kernelrl.data.decontamination.trace import OperatorGraph
from kernelrl.data.program import NormalisedProgram
from kernelrl.task import Task

FILE = Path(__file__).with_name("known.jsonl.gz")


@cache
def read_known() -> tuple[dict[str, Any], tuple[Benchmark, ...]]:
    """How they were made (`torch`, `shingle`, `permutations`, commits by benchmark), and the benchmarks."""
    with gzip.open(FILE, "rt") as file:
        header, *rows = map(json.loads, file)
    found: defaultdict[str, list[tuple[Task, Fingerprint]]] = defaultdict(list)
    for row in rows:
        found[row["benchmark"]].append((Task(id=row["id"], source=""), _decode(row)))
    benchmarks = [
        Benchmark(name, tuple(task for task, _ in pairs), None, tuple(each for _, each in pairs))
        for name, pairs in found.items()
    ]
    return header, tuple(benchmarks)


def write_known(path: Path, header: Mapping[str, Any], rows: Iterable[tuple[str, Task, Fingerprint]]) -> None:
    """Write the file of fingerprints.

    Args:
        rows: name of the benchmark, task, and its fingerprint.
    """
    lines = [dict(header), *({"benchmark": name, "id": task.id} | _encode(each) for name, task, each in rows)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def is_own(task: Task, benchmark: str) -> bool:
    """Whether a training task was taken from that benchmark on purpose: its origin says so."""
    return _plain(task.origin).startswith(_plain(benchmark))


def _encode(each: Fingerprint) -> dict[str, Any]:
    row: dict[str, Any] = {"exact": each.exact}
    if each.program is not None and each.signature is not None:
        row |= {"structure": each.program.structure, "sizes": each.program.sizes}
        row["signature"] = base64.b64encode(each.signature).decode()
    if each.traced is not None:
        graph = each.traced.graph
        row |= {"hash": each.traced.hash, "sized_hash": each.traced.sized_hash, "operators": graph.operators}
        row |= {"labels": graph.labels, "edges": graph.edges}
    return row


def _decode(row: Mapping[str, Any]) -> Fingerprint:
    program = NormalisedProgram(row["structure"], row["sizes"]) if "structure" in row else None
    signature = base64.b64decode(row["signature"]) if "signature" in row else None
    traced = None
    if "labels" in row:
        edges: Sequence[tuple[int, int, str]] = [(node, argument, name) for node, argument, name in row["edges"]]
        graph = OperatorGraph(tuple(row["labels"]), ("",) * len(row["labels"]), tuple(edges), row["operators"])
        traced = TracedGraph(graph, row["hash"], row["sized_hash"])
    return Fingerprint(row["exact"], program, signature, traced, None if traced else "not traced when it was made")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
