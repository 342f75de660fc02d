"""Evaluation: every policy on the held-out tasks, figures with intervals, comparison, report."""

from kernelrl.eval.stage import run

__all__ = ["run"]
