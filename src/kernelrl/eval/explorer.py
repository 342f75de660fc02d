"""What the report's table of tasks and its viewer of kernels show: rows at once, kernels packed until one is opened."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from kernelrl.candidate import Completion
from kernelrl.records import Record

BLOCK = 20
"""Tasks whose samples are packed together: a page unpacks no more than it shows."""
MAX_CHARS = 20_000
"""Length at which a kernel is cut off."""


@dataclass(frozen=True)
class Explorer:
    """Parts of the page."""

    tasks: Markup
    """JSON: a row per task: id, category, level, then for each policy its samples, correct ones and best speedup."""
    policies: Markup
    """JSON: names."""
    samples: tuple[str, ...]
    """For each `BLOCK` tasks, base64 of gzipped JSON: every sample of them, equal kernels once."""
    block: int
    """How many tasks are packed together."""
    script: Markup
    script_hash: str
    """Of the one script that the page's content security policy allows."""


def make_explorer(tasks: Sequence[Mapping[str, Any]], records: Mapping[str, Sequence[Record]]) -> Explorer:
    """Args:
    tasks: as `results.json` has them.
    records: of every policy, by name.
    """
    by_task: dict[str, dict[str, list[Record]]] = defaultdict(lambda: {name: [] for name in records})
    for name, samples in records.items():
        for record in samples:
            by_task[record.task_id][name].append(record)
    rows = [
        [
            task["id"],
            task["category"],
            task["level"],
            *(it for group in by_task[task["id"]].values() for it in _cell(group)),
        ]
        for task in tasks
    ]
    ids = [task["id"] for task in tasks]
    packed = tuple(_pack({id: by_task[id] for id in ids[at : at + BLOCK]}) for at in range(0, len(ids), BLOCK))
    script = files("kernelrl.eval").joinpath("explorer.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Explorer(_json(rows), _json(list(records)), packed, BLOCK, Markup(script), f"sha256-{digest}")


def _pack(by_task: Mapping[str, Mapping[str, Sequence[Record]]]) -> str:
    texts: dict[str, int] = {}
    samples = {
        id: [
            _sample(name, _number(number, record), record, texts)
            for name, group in groups.items()
            for number, record in enumerate(group)
        ]
        for id, groups in by_task.items()
    }
    content = json.dumps({"texts": list(texts), "tasks": samples}, ensure_ascii=False).encode("utf-8", "replace")
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def _cell(samples: Sequence[Record]) -> tuple[int, int, float | None]:
    """Number of samples with a verdict, of correct ones, and the best speedup of these."""
    verdicts = [record.verdict for record in samples if record.verdict.status != "infrastructure"]
    speedups = [verdict.speedup.median for verdict in verdicts if verdict.correct and verdict.speedup]
    return len(verdicts), sum(verdict.correct for verdict in verdicts), max(speedups, default=None)


def _number(number: int, record: Record) -> str:
    """Of several attempts of a trajectory (`…/TASK/SAMPLE/N`): the sample, and the turn from 1."""
    return str(number) if record.turn is None else f"{record.id.split('/')[-2]}, turn {record.turn + 1}"


def _sample(policy: str, number: str, record: Record, texts: dict[str, int]) -> dict[str, Any]:
    verdict, completion = record.verdict, Completion.parse(record.completion)
    shown = completion.source or completion.answer or "(nothing)"
    shown = shown if len(shown) <= MAX_CHARS else f"{shown[:MAX_CHARS]}\n… {len(shown) - MAX_CHARS} more characters"
    speedup = verdict.speedup
    facts = [("status", f"{verdict.status}, stage {verdict.stage}")]
    if speedup:
        facts.append(("speedup", f"{speedup.median:.2f}× [{speedup.low:.2f}, {speedup.high:.2f}]"))
    if verdict.candidate_ms is not None and verdict.reference_ms is not None:
        facts.append(("time", f"{verdict.candidate_ms:.3g} ms, reference {verdict.reference_ms:.3g} ms"))
    if verdict.bound_ms and verdict.candidate_ms:
        facts.append(("of the limit", f"{verdict.bound_ms / verdict.candidate_ms:.1%}"))
    facts += [("rule broken", f"{it.rule}: {it.evidence}") for it in verdict.violations[:3]]
    facts += [("reward", f"{record.reward:.3g}")] if record.reward is not None else []
    facts += [("feedback", verdict.feedback[:600])] if verdict.feedback else []
    title = f"{verdict.status}{f', {speedup.median:.2f}×' if speedup else ''}"
    text = texts.setdefault(shown, len(texts))
    rank = verdict.correct * (1.0 + (speedup.median if speedup else 0.0))
    return {"policy": policy, "number": number, "title": title, "facts": facts, "text": text, "rank": rank}


def _json(value: Any) -> Markup:
    """JSON that no text in it can end: a browser reads `<` as JSON does."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))
