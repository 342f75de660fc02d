"""Attempts as a tree: which kernel came of which, for `kernelrl records --tree`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rich.text import Text
from rich.tree import Tree

from kernelrl.records import Record

STYLES = {"correct": "green", "illegal": "yellow", "infrastructure": "dim"}


def make_trees(records: Iterable[Record]) -> list[Tree]:
    """A tree per task and strategy; a record whose parent is not among the given ones is a root."""
    members: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        members[(record.task_id, record.strategy or "no strategy")].append(record)
    return [_make_tree(f"{task}, {strategy}", attempts) for (task, strategy), attempts in members.items()]


def _make_tree(title: str, attempts: list[Record]) -> Tree:
    tree = Tree(Text(f"{title}: {len(attempts)} attempts", style="bold"))
    nodes: dict[str, Tree] = {}
    for record in sorted(attempts, key=lambda record: (record.turn or 0, record.time)):
        above = nodes.get(record.parent or "", tree)
        nodes[record.id] = above.add(_line(record))
    return tree


def _line(record: Record) -> Text:
    verdict = record.verdict
    line = Text(f"{record.id} ")
    line.append(verdict.status, STYLES.get(verdict.status, "red"))
    if verdict.speedup is not None:
        line.append(f" {verdict.speedup.median:.2f}×")
    if record.reward is not None:
        line.append(f" reward {record.reward:.3f}")
    if not verdict.correct:
        line.append(f" {verdict.feedback.partition(chr(10))[0][:60]}", "dim")
    return line
