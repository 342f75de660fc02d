"""The hacking watch while a training runs: an alarm on the terminal and in the tracker when a sign rises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from kernelrl.console import console
from kernelrl.stage_folder import read_log
from kernelrl.training import tracking
from kernelrl.training.hacking import alarms


class AlarmCallback(TrainerCallback):
    """Gives each alarm once; those of the part before a resumption have been given."""

    def __init__(self, log_file: Path):
        self.log_file = log_file
        self._log: list[dict[str, Any]] = []
        self._given: set[str] = set()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._log = [entry for entry in read_log(self.log_file) if entry["step"] <= state.global_step]
        self._given = {alarm.sign for alarm in alarms(self._log)}

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        self._log.append({"step": state.global_step, **(logs or {})})
        for alarm in alarms(self._log):
            if alarm.sign not in self._given:
                self._given.add(alarm.sign)
                console.print(f"[bold yellow]hacking watch:[/] {alarm}; look at `kernelrl records`", highlight=False)
                tracking.alert(args.report_to or (), "kernelrl: hacking watch", str(alarm))
