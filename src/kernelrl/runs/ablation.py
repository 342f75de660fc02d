"""`kernelrl ablate reward=A,B seed=0,1`: GRPO and evaluation once per combination, all from one SFT policy, compared.

Curation and SFT run once, in the output folder, as `kernelrl pipeline` would run them there; every combination (an arm)
gets a folder beside them, named by what is varied. The verdict cache is shared by all. Every part resumes; more values
extend an ablation that has finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from kernelrl.configs import compose_config, swept
from kernelrl.console import console, make_console
from kernelrl.errors import UserError
from kernelrl.eval import ablation
from kernelrl.records import write_json
from kernelrl.runs.launch import run_stage
from kernelrl.runs.preflight import require_all
from kernelrl.runs.stages import STAGES

START = "start"
"""Folder with the evaluation of the SFT policy, which all arms start from."""
NAMING = ("output_dir", "name", "hydra")
"""Overrides that do not change what an arm does."""


def prepare(overrides: Sequence[str]) -> None:
    """Check every arm's config, then make what the arms share: the data, the SFT policy and its evaluation.

    Raises:
        UserError: nothing is varied, or an arm's config cannot be used.
    """
    if not swept(overrides):
        raise UserError("ablate: nothing is varied; give several values, e.g. reward=kernelrl,autotriton seed=0,1")
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    (arms,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    for arm in arms:
        require_all(compose_config("ablate", arm), ("curate", "sft", "grpo", "eval"))
    cfg = compose_config("ablate", fixed(overrides))
    console.print(f"{len(arms)} arms, in {cfg.output_dir}", highlight=False)
    cfg.curate.reopen = False
    for name in ("curate", "sft"):
        console.rule(f"[bold]{name}[/]: {STAGES[name].summary}", align="left")
        run_stage(name, cfg)
    _evaluate(cfg, "sft", Path(cfg.output_dir) / START)


def fixed(overrides: Sequence[str]) -> list[str]:
    """The overrides that are the same in every arm."""
    varied = swept(overrides)
    return [word for word in overrides if word.partition("=")[0] not in varied]


def run(cfg: DictConfig) -> Path:
    """Train and evaluate one arm. Returns its folder."""
    folder = Path(cfg.output_dir)
    console.rule(f"[bold]{folder.name}[/]", align="left")
    run_stage("grpo", cfg)
    _evaluate(cfg, "grpo", folder)
    words = [word for word in HydraConfig.get().overrides.task if not word.startswith((*NAMING, "seed="))]
    write_json(folder / ablation.ARM, {"overrides": words, "seed": cfg.seed, "reward": cfg.reward.name})
    return folder


def finish(output_dir: str | Path) -> Path:
    """Compare all arms that have finished: a table in the terminal, `ablation.json` and `ablation.html`."""
    summary = ablation.compare_arms(Path(output_dir), START)
    make_console().print(ablation.make_table(summary))
    return ablation.write(Path(output_dir), summary)


def _evaluate(cfg: DictConfig, policy: str, folder: Path) -> None:
    """Evaluate one policy alone, with its results in `folder`."""
    cfg = cfg.copy()
    for stage in ("curate", "sft", "grpo"):
        cfg[stage].folder = str(cfg[stage].folder)
    cfg.output_dir = str(folder)
    cfg.eval.policies = {policy: f"{cfg[policy].folder}/final"}
    run_stage("eval", cfg)
