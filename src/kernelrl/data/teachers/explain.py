"""A language model that writes the reasoning for kernels that are known to be right.

For kernels without a reasoning, or with a poor one: published ones, those of an earlier curation. Each is explained,
and then written again by the same model from the task and the explanation alone. What is proposed is the explanation
with the kernel that was written from it; so it enters a data set only where it leads to a kernel whose verdict is
`correct`. An explanation that quotes the kernel proves nothing by that and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from kernelrl import dialects
from kernelrl.candidate import Completion
from kernelrl.data.tables import read_verified
from kernelrl.data.teachers import Proposal
from kernelrl.data.teachers.llm import OWN, LLMTeacher, Outcome, sample
from kernelrl.errors import UserError
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.prompts import Message, build_prompt
from kernelrl.policies.protocol import Answer
from kernelrl.task import Task

EXPLAIN = """\
This PyTorch program:
```python
{program}
```
is replaced by this kernel in {title}, which is correct:
```python
{kernel}
```
Write down the reasoning that leads from the program to such a kernel, as its author thinks it before the kernel is \
there: what the program computes, what its time goes into, how the work is divided, what is kept where, the order of \
the loops, and what could go wrong. Name sizes, types and edge cases, so that someone who has only the program and \
this reasoning can write the kernel. Quote no code of the kernel, and do not say that you have seen it."""
WRITE = "This is how to go about it:\n{reasoning}"
LONG_LINE = 12
"""Characters from which on a line of a kernel says something of its own."""


class ExplainTeacher(LLMTeacher):
    """Args:
    cfg: see `configs/teacher/explain.yaml`.

    Raises:
        UserError: `kernels` is not given, or is not the folder of a verification.
    """

    own = OWN | {"kernels", "max_quoted"}
    rounds = 2

    def __init__(self, cfg: DictConfig):
        if cfg.kernels is None:
            raise UserError("teacher.kernels is not set; give the folder `verified` of the curation to be explained")
        super().__init__(cfg)
        self._kernels: dict[tuple[str, str], str] = {}
        best: dict[tuple[str, str], float] = {}
        for task, row in read_verified(Path(cfg.kernels).expanduser(), ("correct",)):
            known, speedup = (task.digest, row["dialect"]), row["verdict"]["speedup"]
            low = speedup["low"] if speedup else 0.0
            if known not in best or low > best[known]:
                best[known], self._kernels[known] = low, row["kernel"]

    def _questions(self, task: Task, dialect: str) -> list[list[Message]]:
        """The question for an explanation; none for a task without a kernel."""
        kernel = self._kernels.get((task.digest, dialect))
        if kernel is None:
            return []
        title = dialects.get(dialect).title
        text = EXPLAIN.format(program=task.source.rstrip(), title=title, kernel=kernel.rstrip())
        return [[_user(text)]]

    def _ask(self, policy: Backend, group: Sequence[Task], dialect: str) -> list[Outcome]:
        samples = self._samples(group, dialect)
        explanations = sample(policy, [(messages, seed) for _, seed, messages in samples])
        reasonings = [
            self._read_explanation(answer, self._kernels[task.digest, dialect])
            for (task, _, _), answer in zip(samples, explanations, strict=True)
        ]
        again = {
            index: ([*build_prompt(task, dialect, self._cfg.style), _user(WRITE.format(reasoning=reasoning))], seed)
            for index, ((task, seed, _), (reasoning, _)) in enumerate(zip(samples, reasonings, strict=True))
            if reasoning
        }
        written = dict(zip(again, sample(policy, list(again.values())), strict=True))
        outcomes = []
        for index, (task, seed, _) in enumerate(samples):
            reasoning, why_not = reasonings[index]
            answers = [explanations[index], *([written[index]] if index in written else [])]
            kernel = Completion.parse(answers[-1].text).source
            if kernel is None or answers[-1].failure is not None or not reasoning:
                found = None if answers[-1].failure is not None else why_not or "no_kernel"
                outcomes.append(Outcome(task, answers, found))
            else:
                asked = self._asked(explanations[index], seed)
                outcomes.append(Outcome(task, answers, Proposal(reasoning, kernel, asked=asked)))
        return outcomes

    def _read_explanation(self, answer: Answer, kernel: str) -> tuple[str, str | None]:
        """The reasoning in an answer; or empty, and what is wrong with it."""
        text = Completion.parse(answer.text).answer.strip()
        if not text or "think>" in text:  # what a policy's own reasoning is delimited by
            return "", "no_reasoning"
        return ("", "quotes_the_kernel") if quoted(kernel, text) > self._cfg.max_quoted else (text, None)


def quoted(kernel: str, text: str) -> float:
    """The share of a kernel's lines that a text repeats; lines too short to say anything do not count."""
    lines = [line.strip() for line in kernel.splitlines() if len(line.strip()) >= LONG_LINE]
    return sum(line in text for line in lines) / max(len(lines), 1)


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def make(cfg: DictConfig) -> ExplainTeacher:
    return ExplainTeacher(cfg)
