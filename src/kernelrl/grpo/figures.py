"""Figures of judged batches, for the trainer's log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from kernelrl.candidate import Completion
from kernelrl.rewards import Score
from kernelrl.verdict import Verdict

TINY = 1.05
"""A speedup below this is one that noise may feign."""
NEARLY_SILENT = 0.05
"""A group whose rewards span less than this teaches next to nothing, where being right earns about 1."""

BROKE = "broke/"
"""Before the name of a rule."""


def batch_figures(verdicts: Sequence[Verdict], scores: Sequence[Score]) -> dict[str, float]:
    """Figures of one batch, for the trainer's log.

    Share of completions that passed each stage; of the correct ones the share of work in their own kernels; of the
    timed ones the mean lower bound of the speedup, and the share that is faster, but by less than `TINY`
    (`tiny_speedups`); mean reward parts.
    """
    known = [verdict for verdict in verdicts if verdict.status != "infrastructure"]
    metrics = {"infrastructure": 1 - len(known) / len(verdicts)}
    if known:
        metrics |= {
            "parsed": fmean(verdict.reached("parsed") for verdict in known),
            "legal": fmean(verdict.legal for verdict in known),
            "compiled": fmean(verdict.legal and verdict.reached("compiled") for verdict in known),
            "correct": fmean(verdict.correct for verdict in known),
        }
    covered = [verdict.coverage for verdict in known if verdict.correct and verdict.coverage is not None]
    if covered:
        metrics["coverage"] = fmean(covered)
    timed = [verdict.speedup.low for verdict in known if verdict.correct and verdict.speedup]
    if timed:
        metrics["speedup_low"] = fmean(timed)
        metrics["tiny_speedups"] = fmean(1 < low < TINY for low in timed)
    for name in sorted({name for score in scores for name in score.parts}):
        metrics[f"reward/{name}"] = fmean(score.parts[name] for score in scores if name in score.parts)
    return metrics


def group_figures(ids: Sequence[str], scores: Sequence[Score]) -> dict[str, float]:
    """Share of groups that teach nothing or next to nothing.

    Those of one scored completion (`lone_groups`), those whose rewards are all alike (`silent_groups`), and those whose
    rewards differ by less than `NEARLY_SILENT` (`nearly_silent_groups`).
    """
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for id, score in zip(ids, scores, strict=True):
        if score.total is not None:
            groups[id].append(score.total)
    if not groups:
        return {}
    spans = [max(totals) - min(totals) for totals in groups.values() if len(totals) > 1]
    return {
        "lone_groups": 1 - len(spans) / len(groups),
        "silent_groups": sum(span == 0 for span in spans) / len(groups),
        "nearly_silent_groups": sum(0 < span < NEARLY_SILENT for span in spans) / len(groups),
    }


def duplicates(ids: Sequence[str], completions: Sequence[Completion]) -> dict[str, float]:
    """Share of the kernels that an earlier completion of the same group wrote already, to the letter; {}: no kernel."""
    kernels = [(id, it.source) for id, it in zip(ids, completions, strict=True) if it.source is not None]
    return {"duplicates": 1 - len(set(kernels)) / len(kernels)} if kernels else {}


def broken_rules(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Share of completions that broke each rule (`broke/RULE`), of the rules that somebody broke.

    The trainer counts a rule that is not named as 0, see `KernelGRPOTrainer.log`.
    """
    known = [verdict for verdict in verdicts if verdict.status != "infrastructure"]
    broken = [{violation.rule for violation in verdict.violations} for verdict in known]
    return {f"{BROKE}{rule}": fmean(rule in rules for rules in broken) for rule in sorted(set().union(*broken))}
