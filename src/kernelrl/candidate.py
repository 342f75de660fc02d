"""`Completion` and `Candidate`: from what a policy wrote to the one kernel that is judged.

The contract is KernelBench's: the kernel is Python source that defines `ModelNew`.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property

from pydantic import BaseModel, ConfigDict

ENTRY_POINT = "ModelNew"
MAX_SOURCE_CHARS = 1_000_000
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[ \t]*$", re.MULTILINE)
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
    """Source of the kernel: the last complete fenced block of the answer that defines the entry point; None: no kernel."""

    @classmethod
    def parse(cls, text: str) -> Completion:
        """Split reasoning from answer and pick the kernel.

        Drafts lose: fences inside the reasoning never count, and of the complete blocks in the answer that define
        `ModelNew` the last wins. An unterminated `<think>` leaves no answer. A block that is never closed (a truncated
        completion) does not count, and neither does one of more than `MAX_SOURCE_CHARS` characters or with null bytes.
        """
        reasoning, answer = _split_reasoning(text)
        kernels = [block for block in _complete_blocks(answer) if _is_kernel(block)]
        return cls(text=text, reasoning=reasoning, answer=answer, source=kernels[-1] if kernels else None)

    def candidate(self, dialect: str) -> Candidate | None:
        """The kernel as a `Candidate`, or None where the completion has none."""
        return None if self.source is None else Candidate(source=self.source, dialect=dialect)


def _split_reasoning(text: str) -> tuple[str, str]:
    head, closed, answer = text.rpartition("</think>")
    if closed:
        return head.replace("<think>", "", 1).strip(), answer
    before, opened, unfinished = text.partition("<think>")
    return (unfinished.strip(), before) if opened else ("", text)


def _complete_blocks(answer: str) -> list[str]:
    blocks = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(answer):
        if opened is None:
            opened = fence
        elif (
            fence.group(1)[0] == opened.group(1)[0]
            and len(fence.group(1)) >= len(opened.group(1))
            and not fence.group(2)
        ):
            blocks.append(answer[opened.end() + 1 : fence.start()])
            opened = None
    return blocks


def _is_kernel(block: str) -> bool:
    return len(block) <= MAX_SOURCE_CHARS and "\0" not in block and _ENTRY.search(block) is not None
