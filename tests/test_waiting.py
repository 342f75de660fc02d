"""Which of the requests that wait is judged next (kernelrl.executor.engines.waiting)."""

from __future__ import annotations

from contextlib import ExitStack

from kernelrl.candidate import Candidate
from kernelrl.executor import Request
from kernelrl.executor.engines.waiting import Line, Waiting
from kernelrl.task import Task


def waiting(number: int, task: str) -> Waiting:
    source = Task(id=task, source=f"import torch  # {task}")
    request = Request(task=source, candidate=Candidate(source=str(number), dialect="cpp"), dialect="cpp")
    return Waiting(number, request, ahead=None)


def line_of(*tasks: str) -> Line:
    line = Line()
    for number, task in enumerate(tasks):
        line.add(waiting(number, task))
    return line


def taken(line: Line, judges: ExitStack) -> int | None:
    found = judges.enter_context(line.next())
    return found and found.number


def test_judges_take_different_tasks_as_long_as_there_are_some() -> None:
    line = line_of("relu", "relu", "gelu", "relu", "gelu")
    with ExitStack() as judges:
        assert [taken(line, judges) for _ in range(5)] == [0, 2, 1, 3, 4]


def test_a_judge_goes_on_with_the_first_task_that_nobody_has() -> None:
    line = line_of("relu", "relu", "gelu", "gelu", "tanh")
    with ExitStack() as judges:
        assert taken(line, judges) == 0
        with ExitStack() as other:
            assert taken(line, other) == 2
        assert taken(line, judges) == 3  # before the task that nobody has begun


def test_who_cancels_is_not_judged_and_who_comes_for_it_finds_nobody() -> None:
    line = line_of("relu", "gelu")
    line.cancel([0, 7])
    with ExitStack() as judges:
        assert [taken(line, judges), taken(line, judges)] == [1, None]


def test_what_a_judge_has_taken_waits_no_longer() -> None:
    line, gelu = line_of("relu", "gelu", "relu"), waiting(1, "gelu").task
    with ExitStack() as judges:
        assert line.has(gelu)
        assert [taken(line, judges), taken(line, judges)] == [0, 1]
        assert not line.has(gelu) and line.has(waiting(0, "relu").task)
