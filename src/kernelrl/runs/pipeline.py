"""The whole pipeline in one process: curate, sft, grpo, eval, report. Every stage resumes by itself, so it does too."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from omegaconf import DictConfig

from kernelrl.console import console
from kernelrl.runs.launch import run_stage
from kernelrl.runs.stages import PIPELINE, STAGES
from kernelrl.stage_folder import is_done


def run(cfg: DictConfig) -> Path:
    """Run every stage that has not finished; the eval stage prints the table of results.

    Returns:
        The report, one HTML file.
    """
    cfg.curate.reopen = False  # what it made, later stages have read
    took = []
    artefact = Path()
    for number, name in enumerate(PIPELINE, 1):
        console.rule(f"[bold]{number}/{len(PIPELINE)} {name}[/]: {STAGES[name].summary}", align="left")
        finished = "folder" in cfg[name] and is_done(cfg[name].folder)
        if finished:
            console.print(f"finished earlier in {cfg[name].folder}: skipped", highlight=False)
        started = time.monotonic()
        artefact = run_stage(name, cfg)
        seconds = time.monotonic() - started
        took.append(f"{name} {'skipped' if finished else timedelta(seconds=round(seconds))}")
    console.rule(align="left")
    console.print(f"time: {', '.join(took)}", highlight=False)
    return artefact
