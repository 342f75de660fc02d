"""The candidate files beside the tests, and what their first lines say. Benchmarks read them too, without pytest."""

from __future__ import annotations

from pathlib import Path

from kernelrl.candidate import Candidate
from kernelrl.executor import Request
from kernelrl.task import Task

HERE = Path(__file__).parent
TASKS = {path.stem: Task.from_file(path) for path in sorted((HERE / "tasks").glob("*.py"))}
EXPLOITS = sorted((HERE / "exploits").glob("*.py"))
HONEST = sorted((HERE / "honest").glob("*.py"))
GPU = sorted((HERE / "gpu").glob("*/*.py"))


def header(path: Path) -> dict[str, str]:
    """Lines `# key: value` at the top of a candidate file: `task`, `dialect`; an exploit has `class` and `expect`.

    `without static rules` is its verdict where they are off, `on a CPU` that of a GPU kernel whose verdict is known
    without a GPU (`left out`: nvcc takes a minute and a half for it), and `on a GPU` that of one which needs the
    interpreter, all read like `expect`. `loader: torch` says that it is built against torch's headers, which takes
    twenty times as long as against TVM's. `draws: 5` says that not every judgement's inputs tell the exploit from the
    task, but those of one in five do.
    """
    lines = path.read_text().splitlines()[:7]
    found = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    return {"task": "relu_scale"} | found


def request(source: str | None, task: Task, dialect: str) -> Request:
    return Request(task=task, candidate=source and Candidate(source=source, dialect=dialect), dialect=dialect)


def from_file(path: Path, number: int = 0) -> Request:
    """The request to judge a candidate file; with another number on other inputs, which a task's text decides."""
    found = header(path)
    task = TASKS[found["task"]]
    if number:
        task = task.model_copy(update={"source": f"{task.source}# {number}\n"})
    return request(path.read_text(), task, found["dialect"])
