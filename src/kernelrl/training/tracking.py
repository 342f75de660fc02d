"""Experiment tracking: W&B when a key is present, otherwise offline. It never blocks and never fails a run."""

from __future__ import annotations

import logging
import netrc
import os
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from kernelrl.configs import to_dict
from kernelrl.errors import UserError

WANDB_HOST = "api.wandb.ai"
INIT_TIMEOUT_S = 20
"""Time that W&B's server gets to answer before the run goes on offline (in seconds)."""

log = logging.getLogger(__name__)


def report_to(cfg: DictConfig, stage: str = "run") -> list[str]:
    """Start tracking for a stage, and say what TRL's `report_to` should be.

    Args:
        cfg: the composed config; `cfg.tracker` decides (`configs/tracker`).
        stage: name of the stage; the tracked run is called `NAME-STAGE` in the group `NAME`.

    Returns:
        `["wandb"]`, or `[]` where tracking is off or could not start (that is logged).
    """
    tracker = cfg.tracker
    if tracker.kind == "none" or os.environ.get("RANK", "0") != "0":
        return []
    if tracker.kind != "wandb":
        raise UserError(f"tracker.kind={tracker.kind} is not known; choose wandb or none")
    if tracker.mode not in ("auto", "online", "offline"):
        raise UserError(f"tracker.mode={tracker.mode} is not known; choose auto, online or offline")
    attempts: list[Literal["online", "offline"]] = ["offline"]
    if tracker.mode == "online" or (tracker.mode == "auto" and has_key()):
        attempts.insert(0, "online")
    for attempt in attempts:
        try:
            _start_wandb(cfg, stage, attempt)
            return ["wandb"]
        except Exception as error:  # whatever is wrong with the tracker, the run goes on
            log.warning("W&B could not start in mode %s: %s", attempt, str(error).partition("\n")[0])
    return []


def has_key() -> bool:
    """Whether W&B can log in without asking: `WANDB_API_KEY`, or an entry in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _start_wandb(cfg: DictConfig, stage: str, mode: Literal["online", "offline"]) -> None:
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.setdefault("WANDB_CONSOLE", "off")
    folder = Path(cfg.output_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if wandb.run is not None:  # the stage before, in the same process
        wandb.finish()
    wandb.init(
        project=cfg.tracker.project,
        group=cfg.name,
        name=f"{cfg.name}-{stage}",
        job_type=stage,
        dir=str(folder),
        mode=mode,
        config=to_dict(cfg),
        settings=wandb.Settings(init_timeout=INIT_TIMEOUT_S, silent=True, console="off"),
    )
