"""What the strategies' prompts have in common."""

from __future__ import annotations

import re

from kernelrl.policies.prompts import Message

ANSWER = "Answer with your reasoning in <think> tags and then one Python code block that defines `ModelNew`."


def user(text: str) -> Message:
    """A message to the policy."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """A message of the policy's."""
    return {"role": "assistant", "content": text}


def fence(source: str, language: str = "python") -> str:
    """A source text in a fence that it cannot close."""
    marks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", source)), default=0))
    return f"{marks}{language}\n{source.rstrip()}\n{marks}\n"
