"""Prompts: what a policy is asked."""

import pytest

from conftest import REFERENCE
from kernelrl import dialects
from kernelrl.errors import UserError
from kernelrl.policies import prompts
from kernelrl.task import Task

TASK = Task(id="relu2", source=REFERENCE)


@pytest.mark.parametrize("style", ["short", "full", "category"])
@pytest.mark.parametrize("dialect", dialects.names())
def test_a_prompt_names_the_language_and_ends_with_the_program(style, dialect):
    (message,) = prompts.build_prompt(TASK, dialect, style)
    assert message["role"] == "user"
    assert dialects.get(dialect).title in message["content"]
    assert message["content"].endswith(f"```python\n{REFERENCE}```\n")
    assert (dialects.get(dialect).example in message["content"]) == (style != "short")


def test_an_unknown_style_is_one_line():
    with pytest.raises(UserError, match=r"prompt.style='long' is not known; choose one of short, full"):
        prompts.build_prompt(TASK, "cpp", "long")


def test_a_conversation_as_text():
    text = prompts.to_text([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert text == "[user]\na\n[assistant]\nb"
