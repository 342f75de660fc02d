"""What a launcher left beside the stages: a log per process, and the list of its jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernelrl.runs.launch import FOLDER, JOBS
from kernelrl.runs.launch.logs import LATEST, LOGS

SUFFIXES = (".log", ".out", ".err")
TAIL_BYTES = 1 << 18
"""Of a log, that is searched for errors."""
SLURM_TIMEOUT_S = 10
_PREFIX = re.compile(r"^(?:\[[^\]\n]*\]:? ?|\d+: )")
"""What torchrun (`[rank0]:`) and srun (`0: `) write before a line."""
_ERROR = re.compile(r"\b(?:error|exception|fatal|killed|out of memory)\b|(?:Error|Exception):", re.IGNORECASE)


@dataclass(frozen=True)
class LogFile:
    """A log and the last thing in it that went wrong."""

    name: str
    """Relative to the folder of the logs."""
    written: float
    """Unix time of the last line (in seconds)."""
    error: str
    """Empty: none is seen at its end."""


@dataclass(frozen=True)
class LaunchedJob:
    """A job of a cluster's scheduler."""

    id: str
    name: str
    state: str
    """As Slurm says, else as the launcher wrote; `unknown` where neither does."""
    submitted: str


def read_logs(run: Path) -> list[LogFile]:
    """The logs of the latest attempt, or of all where no link names it."""
    folder = run / LOGS
    if (folder / LATEST).exists():
        folder = (folder / LATEST).resolve()
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return [LogFile(str(path.relative_to(folder)), path.stat().st_mtime, last_error(_tail(path))) for path in paths]


def last_error(text: str) -> str:
    """The last line of the last traceback, or a later line that speaks of an error."""
    found, in_traceback = "", False
    for line in text.splitlines():
        bare = _PREFIX.sub("", line)
        if bare.startswith("Traceback (most recent call last)"):
            in_traceback = True
        elif in_traceback:
            if bare.strip() and not bare[0].isspace():
                found, in_traceback = bare, False
        elif _ERROR.search(bare):
            found = bare
    return found.strip()


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def read_jobs(run: Path) -> list[LaunchedJob]:
    """The jobs that were launched for a run."""
    path = run / FOLDER / JOBS
    if not path.exists():
        return []
    listed = json.loads(path.read_text())
    now = _slurm_states([str(job["job_id"]) for job in listed])
    return [
        LaunchedJob(
            id=str(job["job_id"]),
            name=str(job["name"]),
            state=now.get(str(job["job_id"]), str(job.get("state") or "unknown")),
            submitted=str(job["submitted"]),
        )
        for job in listed
    ]


def _slurm_states(ids: list[str]) -> dict[str, str]:
    """What Slurm says about jobs, where it is installed: those that it still holds, then those in its accounting."""
    if not ids or shutil.which("squeue") is None:
        return {}
    states = _ask(["squeue", "--noheader", "--states=all", "--format=%i|%T", f"--jobs={','.join(ids)}"])
    ended = [id for id in ids if id not in states]
    if ended and shutil.which("sacct"):
        command = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State"]
        states = _ask([*command, f"--jobs={','.join(ended)}"]) | states
    return states


def _ask(command: list[str]) -> dict[str, str]:
    """Lines `job|state`; none where Slurm does not answer."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SLURM_TIMEOUT_S).stdout
    except subprocess.TimeoutExpired:
        return {}
    pairs = (line.strip().partition("|") for line in answer.splitlines())
    return {id: state for id, bar, state in pairs if bar}
