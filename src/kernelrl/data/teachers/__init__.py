"""Teachers: who proposes kernels for the training set, one module each with a function `make(cfg) -> Teacher`.

A teacher is never trusted: what it proposes enters the data set only with a `correct` verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol

from omegaconf import DictConfig

from kernelrl.errors import UserError
from kernelrl.task import Task


@dataclass(frozen=True)
class Asked:
    """The question to a language model that a proposal answers, and what the answer took."""

    model: str
    request: str
    """Sampling parameters and seed, as JSON."""
    prompt_tokens: int | None
    completion_tokens: int | None
    finish: str | None
    """`stop`, or `length` where the answer was cut off; None: the server does not say."""


@dataclass(frozen=True)
class Proposal:
    """A kernel and the reasoning that leads to it."""

    reasoning: str
    source: str
    level: str | None = None
    """How far the kernel is optimised, in the teacher's own words, e.g. `fused`; None: the teacher makes no levels."""
    asked: Asked | None = None
    """None: no language model wrote it."""

    def completion(self) -> str:
        """The text that a policy is trained to write; `Completion.parse` takes it apart again."""
        return f"<think>\n{self.reasoning}\n</think>\n```python\n{self.source}```\n"


class Teacher(Protocol):
    """Proposes kernels for tasks. Deterministic, so that a resumed run repeats nothing.

    A teacher writes one of `propose` and `proposals`; each is made of the other.
    """

    name: str
    """In the data set: teachers that differ have different names."""
    dialects: frozenset[str]
    """Those that it can write."""
    questions: int = 0
    """That it asked someone in this run, those whose answer was kept from an earlier one included."""
    unanswered: int = 0
    """Of them, those that got no answer: another run asks them again."""

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        """Proposals for one task, best first; empty where the teacher cannot write it."""
        return [proposal for _, proposal in self.proposals([task], dialect)]

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        """Proposals for many tasks, in the order of the tasks and best first within one.

        A teacher that waits for something (a server, a compiler) works ahead of whoever iterates, on a bounded number
        of tasks; closing the iterator ends that work.
        """
        for task in tasks:
            for proposal in self.propose(task, dialect):
                yield task, proposal

    def summary(self) -> dict[str, Any]:
        """What it did so far, as JSON: tasks that it could not write by reason, tokens, cost, …"""
        return {}


def make_teacher(cfg: DictConfig, dialect: str) -> Teacher:
    """The teacher that `cfg.name` names.

    Raises:
        UserError: there is no such teacher, or it does not write the dialect; lists what there is.
    """
    names = sorted(module.name for module in iter_modules(__path__))
    if cfg.name not in names:
        raise UserError(f"teacher.name={cfg.name!r} is not known; choose one of {', '.join(names)}")
    teacher: Teacher = import_module(f"{__name__}.{cfg.name}").make(cfg)
    if cfg.get("label"):
        teacher.name = cfg.label
    if dialect not in teacher.dialects:
        known = ", ".join(sorted(teacher.dialects))
        raise UserError(f"teacher {cfg.name} does not write dialect {dialect}; it writes {known}")
    return teacher
