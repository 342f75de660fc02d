"""`Completion` and `Candidate`: from what a policy wrote to the one kernel that is judged.

The contract is KernelBench's: the kernel is Python source that defines `ModelNew`.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property

from pydantic import BaseModel, ConfigDict

ENTRY_POINT = "ModelNew"
MAX_SOURCE_CHARS = 200_000
_END_OF_REASONING = "</think>"
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)  # linear in any text: completions are hostile
_ENTRY = re.compile(rf"^(?:class[ \t]+{ENTRY_POINT}\b|{ENTRY_POINT}[ \t]*=)", re.MULTILINE)


class Candidate(BaseModel):
    """One kernel: Python source that defines `ModelNew`, and the dialect that it claims to be written in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    dialect: str

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of dialect and source: equal candidates get one verdict."""
        return hashlib.sha256(f"{self.dialect}\0{self.source}".encode("utf-8", "surrogatepass")).hexdigest()


class Completion(BaseModel):
    """What a policy wrote, taken apart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The completion as it was sampled."""
    reasoning: str
    """The text inside `<think>…</think>`, or before a lone `</think>`; empty where there is none."""
    answer: str
    """The text after the reasoning."""
    source: str | None
    """The kernel: the last complete fenced block of the answer that defines the entry point; None: there is none."""

    @classmethod
    def parse(cls, text: str) -> Completion:
        """Split reasoning from answer and pick the kernel.

        Drafts lose: fences inside the reasoning never count, and of the complete blocks in the answer that define
        `ModelNew` the last wins. An unterminated `<think>` leaves no answer after it. A block that is never closed (a
        truncated completion) does not count, and neither does one of more than `MAX_SOURCE_CHARS` characters or with
        null bytes.
        """
        text = text.encode("utf-8", "replace").decode()  # lone surrogates can neither be stored nor compiled
        reasoning, answer = _split_reasoning(text)
        source = next((block for _, block in reversed(_fenced(answer)) if _is_kernel(block)), None)
        return cls(text=text, reasoning=reasoning, answer=answer, source=source)

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        """Contents of the complete fenced blocks of the answer, in order."""
        return tuple(block for _, block in _fenced(self.answer))

    @cached_property
    def plan_end(self) -> int:
        """Number of characters before the kernel's block, where it is planned; of the whole text without a kernel."""
        before = sum(map(len, self.text.rpartition(_END_OF_REASONING)[:2]))
        starts = [start for start, block in _fenced(self.answer) if block == self.source]
        return before + starts[-1] if starts else len(self.text)

    def candidate(self, dialect: str) -> Candidate | None:
        """The kernel as a `Candidate`, or None where the completion has none."""
        return None if self.source is None else Candidate(source=self.source, dialect=dialect)


def _split_reasoning(text: str) -> tuple[str, str]:
    head, closed, tail = text.rpartition(_END_OF_REASONING)
    answer, opened, unfinished = tail.partition("<think>")
    reasoning = head.replace("<think>", "", 1) if closed else unfinished
    return reasoning.strip(), answer


def _fenced(answer: str) -> list[tuple[int, str]]:
    """CommonMark's fenced blocks with their places, but a fence that names a language restarts one never closed."""
    blocks = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(answer):
        marks, language = fence[2], fence[3].strip()
        fits = opened is None or (marks[0] == opened[2][0] and len(marks) >= len(opened[2]))
        if not fits or marks[0] in language:
            continue
        if opened is None or language:
            opened = fence
        else:
            block = answer[opened.end() + 1 : fence.start()].replace("\r\n", "\n")
            blocks.append((opened.start(), _outdent(block, len(opened[1]))))
            opened = None
    return blocks


def _outdent(block: str, indent: int) -> str:
    """Take the fence's own indentation from every line, as far as the line has it."""
    return re.sub(rf"^[ \t]{{1,{indent}}}", "", block, flags=re.MULTILINE) if indent else block


def _is_kernel(block: str) -> bool:
    return len(block) <= MAX_SOURCE_CHARS and "\0" not in block and _ENTRY.search(block) is not None
