"""Policies whose samples are there already: they are judged like new ones.

`{backend: kernels, folder: FOLDER}`: FOLDER/TASK_ID.py is the kernel of a task, FOLDER/TASK_ID/NUMBER.py that of its
sample NUMBER, from 0. A task id with slashes is a path; for the cases of one program it is `Task.case_of`.
`{backend: records, folder: RUN/eval/POLICY}`: the completions that an earlier evaluation has recorded
(`eval/rejudge.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from kernelrl.errors import UserError
from kernelrl.policies.protocol import Answer
from kernelrl.records import Ledger, digest, shards

FENCE = "`" * 12
"""Longer than any in a kernel's own comments."""


class _FolderSettings(BaseModel):
    """What the nodes of both have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path

    @property
    def model(self) -> str:
        """Where the policy comes from, for the results."""
        return str(self.folder)


class ReadySettings(_FolderSettings):
    """The node of a policy whose kernels lie in a folder."""

    backend: Literal["kernels"]

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its samples: every file's content."""
        files = sorted(self.folder.rglob("*.py"))
        return {"backend": "kernels", "files": {str(file.relative_to(self.folder)): digest(file) for file in files}}


class RecordedSettings(_FolderSettings):
    """The node of a policy whose completions were recorded: its folder, in an evaluation, holds `records`."""

    backend: Literal["records"]

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its samples: the records."""
        return {"backend": "records", "files": {path.name: digest(path) for path in shards(self.folder / "records")}}


class RecordedCompletions:
    """Answers from a ledger.

    Args:
        settings: which folder.
        task_ids: of the evaluation.
        samples: of each task.
        name: of the config's node, for messages.

    Raises:
        UserError: it holds no record, those of a strategy, or none of a sample that is wanted.
    """

    def __init__(self, settings: RecordedSettings, task_ids: Collection[str], samples: int, name: str):
        self._records = {record.id.split("/", 2)[2]: record for record in Ledger(settings.folder / "records")}
        if not self._records:
            raise UserError(f"{name}.folder={settings.folder}: no records in it")
        if strategies := {record.strategy for record in self._records.values() if record.turn is not None}:
            named = ", ".join(map(str, strategies))
            raise UserError(
                f"{name}.folder={settings.folder}: holds attempts of strategy={named}, and only completions that were "
                "asked for by themselves are judged anew; evaluate with that strategy again"
            )

        missing = [id for id in task_ids if any(f"{id}/{sample}" not in self._records for sample in range(samples))]
        if missing:
            raise UserError(
                f"{name}.folder={settings.folder}: lacks completions of {len(missing)} of {len(task_ids)} tasks, e.g. "
                f"{missing[0]}; give the tasks that were evaluated there (tasks=NAME with eval.tasks=null, or "
                "eval.tasks=FILE)"
            )

    def answer(self, task_id: str, sample: int) -> Answer:
        """The completion as it was recorded."""
        record = self._records[f"{task_id}/{sample}"]
        return Answer(
            text=record.completion,
            finish=record.finish,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
        )

    def close(self) -> None: ...


class ReadyKernels:
    """Answers from a folder.

    Args:
        settings: which folder.
        task_ids: of the evaluation.
        samples: of each task.
        name: of the config's node, for messages.

    Raises:
        UserError: the folder is not there, or has no kernel for any of the tasks, or for none so many as are wanted.
    """

    def __init__(self, settings: ReadySettings, task_ids: Collection[str], samples: int, name: str):
        self._folder = settings.folder
        if not self._folder.is_dir():
            raise UserError(f"{name}.folder={self._folder}: no such folder")
        self.missing = [id for id in task_ids if self._find(id, 0) is None]
        """Tasks without a kernel: their samples fail."""
        if len(self.missing) == len(task_ids):
            first = next(iter(task_ids))
            raise UserError(
                f"{name}.folder={self._folder}: has no kernel for any of {len(task_ids)} tasks; "
                f"that of the first one is looked for in {first}.py and {first}/0.py"
            )
        most = max(sum(self._find(id, sample) is not None for sample in range(samples)) for id in task_ids)
        if most < samples:
            raise UserError(
                f"{name}.folder={self._folder}: has at most {most} of the {samples} samples of a task, and those "
                f"that it lacks would count as failures: give eval.samples={most} and an eval.k of {most} at most"
            )

    def answer(self, task_id: str, sample: int) -> Answer:
        """The kernel as a completion; an empty one where there is none."""
        file = self._find(task_id, sample)
        if file is None:
            return Answer(text="")
        source = file.read_text(encoding="utf-8", errors="replace")
        return Answer(text=f"{FENCE}python\n{source.rstrip()}\n{FENCE}\n")

    def close(self) -> None: ...

    def _find(self, task_id: str, sample: int) -> Path | None:
        single, numbered = self._folder / f"{task_id}.py", self._folder / task_id / f"{sample}.py"
        return numbered if numbered.is_file() else single if sample == 0 and single.is_file() else None
