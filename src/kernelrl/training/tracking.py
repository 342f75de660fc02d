"""Experiment tracking: W&B (online when a key is present, otherwise offline), TensorBoard or Trackio.

It never blocks a run and never fails one that has started. A stage that goes on is tracked as the same run.
"""

from __future__ import annotations

import logging
import netrc
import os
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig

from kernelrl.configs import to_dict
from kernelrl.errors import UserError
from kernelrl.stage_folder import is_main_rank

KINDS = ("wandb", "tensorboard", "trackio", "none")
RUN_ID = "wandb_id"
"""File in a stage's folder with the id of its run: a stage that is made anew is another run."""
WANDB_HOST = "api.wandb.ai"
INIT_TIMEOUT_S = 20
"""Time that W&B's server gets to answer before the run goes on offline (in seconds)."""

log = logging.getLogger(__name__)


def check(tracker: DictConfig) -> None:
    """Check what `start` needs.

    Raises:
        UserError: an unknown tracker or mode, or its package is not installed.
    """
    if tracker.kind not in KINDS:
        raise UserError(f"tracker.kind={tracker.kind} is not known; choose one of {', '.join(KINDS)}")
    if tracker.kind == "wandb" and tracker.mode not in ("auto", "online", "offline"):
        raise UserError(f"tracker.mode={tracker.mode} is not known; choose auto, online or offline")
    if tracker.kind in ("tensorboard", "trackio") and find_spec(tracker.kind) is None:
        raise UserError(f"tracker={tracker.kind}: not installed; pip install 'kernelrl[trackers]'")


def start(cfg: DictConfig, stage: str) -> dict[str, Any]:
    """Start tracking for a stage; it goes on with the run of an earlier part of the same stage.

    Args:
        cfg: the composed config; `cfg.tracker` decides (`configs/tracker`).
        stage: name of the stage, which has a folder; the tracked run is called `NAME-STAGE` in the group `NAME`.

    Returns:
        Fields of the trainer's arguments. `report_to` is empty where tracking is off, on other ranks than the main one,
        and where it could not start (that is logged).

    Raises:
        UserError: see `check`.
    """
    check(cfg.tracker)
    kind, name = cfg.tracker.kind, f"{cfg.name}-{stage}"
    if kind == "none" or not is_main_rank():
        return {"report_to": []}
    folder = Path(cfg.output_dir).absolute()
    if kind == "wandb":
        return {"report_to": ["wandb"] if _start_wandb(cfg, stage, name) else []}
    if kind == "tensorboard":  # the trainer's callback reads it
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder / "tensorboard" / stage)
    else:  # trackio reads it when it is imported
        os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
    return {"report_to": [kind], "run_name": name, "project": cfg.tracker.get("project") or "kernelrl"}


def log_figures(cfg: DictConfig, stage: str, figures: Mapping[str, float]) -> None:
    """Track figures of a stage that has no trainer, as a run of its own."""
    started = start(cfg, stage)
    if "wandb" in started["report_to"]:
        import wandb

        wandb.log(dict(figures))
    elif "tensorboard" in started["report_to"]:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(os.environ["TENSORBOARD_LOGGING_DIR"]) as writer:
            for figure, value in figures.items():
                writer.add_scalar(figure, value)
    elif "trackio" in started["report_to"]:
        import trackio

        trackio.init(project=started["project"], name=started["run_name"], resume="allow", embed=False)
        trackio.log(dict(figures))
        trackio.finish()


def alert(trackers: Collection[str], title: str, text: str) -> None:
    """Tell whoever watches, where the tracker of the run in progress knows alerts."""
    if "wandb" in trackers:
        import wandb

        assert wandb.run is not None
        wandb.run.alert(title=title, text=text)
    elif "trackio" in trackers:
        import trackio

        trackio.alert(title, text)


def has_key() -> bool:
    """Whether W&B can log in without asking: `WANDB_API_KEY`, or an entry in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _start_wandb(cfg: DictConfig, stage: str, name: str) -> bool:
    """Whether it started in some mode."""
    mode = cfg.tracker.mode
    attempts: list[Literal["online", "offline"]] = ["offline"]
    if mode == "online" or (mode == "auto" and has_key()):
        attempts.insert(0, "online")
    for attempt in attempts:
        try:
            _init_wandb(cfg, stage, name, attempt)
            return True
        except Exception as error:  # whatever is wrong with the tracker, the run goes on
            log.warning("W&B could not start in mode %s: %s", attempt, str(error).partition("\n")[0])
    return False


def _init_wandb(cfg: DictConfig, stage: str, name: str, mode: Literal["online", "offline"]) -> None:
    import wandb

    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.setdefault("WANDB_CONSOLE", "off")
    folder = Path(cfg.output_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if wandb.run is not None:  # the stage before, in the same process
        wandb.finish()
    id_file = Path(cfg[stage].folder) / RUN_ID
    earlier = id_file.read_text().strip() if id_file.exists() else None
    run = wandb.init(
        project=cfg.tracker.project,
        group=cfg.name,
        name=name,
        job_type=stage,
        dir=str(folder),
        mode=mode,
        config=to_dict(cfg),
        id=earlier,
        # offline there is no server that could say whether the run is known: W&B only warns of it
        resume="allow" if earlier and mode == "online" else None,
        settings=wandb.Settings(init_timeout=INIT_TIMEOUT_S, silent=True, console="off"),
    )
    if earlier is None:
        id_file.parent.mkdir(parents=True, exist_ok=True)
        id_file.write_text(run.id)
