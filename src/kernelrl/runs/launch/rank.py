"""One rank of a stage that trains: `python -m kernelrl.runs.launch.rank CONFIG STAGE`, started by the node's agent."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from kernelrl.console import set_up_logging
from kernelrl.errors import KernelRLError
from kernelrl.runs.ending import ending_at_once
from kernelrl.runs.stages import STAGES
from kernelrl.stage_folder import is_main_rank
from kernelrl.training import interruption


def main(config: Path, stage: str) -> None:
    """Run the stage as one of its ranks. What the main rank prints goes to the job's output, the others' to files."""
    if not is_main_rank():
        name = f"{stage}-rank{os.environ['RANK']}.log"
        log = os.open(Path(os.environ["KERNELRL_LOGS"]) / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
    interruption.install()
    STAGES[stage].run(cast(DictConfig, OmegaConf.load(config)))


if __name__ == "__main__":
    set_up_logging()
    with ending_at_once():
        try:
            main(Path(sys.argv[1]), sys.argv[2])
        except KernelRLError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            sys.exit(error.exit_code)
