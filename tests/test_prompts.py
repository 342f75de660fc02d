"""Prompts: what a policy is asked."""

from typing import ClassVar

import pytest
import tokenizers
from transformers import AddedToken, PreTrainedTokenizerFast

from conftest import REFERENCE
from kernelrl import dialects
from kernelrl.errors import UserError
from kernelrl.policies import prompts
from kernelrl.policies.settings import ModelSettings
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


class Tokenizer:
    """Renders the last message and what a chat template writes before the policy goes on."""

    chat_template = "the last message"
    added_tokens_decoder: ClassVar[dict] = {}

    def __init__(self, suffix):
        self.suffix = suffix

    def apply_chat_template(self, messages, enable_thinking=True, **options):
        return f"<user>{messages[-1]['content']}<assistant>{self.suffix if enable_thinking else ''}"


@pytest.mark.parametrize(
    ("suffix", "options", "restored"),
    [
        ("", {}, "draft"),
        ("<think>\n", {}, "<think>\ndraft"),
        ("<think>\n", {"chat_template_kwargs": {"enable_thinking": False}}, "draft"),
        ("<think>\n\n</think>\n\n", {}, "draft"),
        ("[THINK]", {"reasoning": {"start": "[THINK]", "end": "[/THINK]"}}, "<think>draft"),
    ],
)
def test_a_completion_begins_with_what_the_template_wrote_of_its_reasoning(suffix, options, restored):
    reasoning = prompts.Reasoning.of(Tokenizer(suffix), ModelSettings.model_validate(options))
    assert reasoning.restore("draft") == restored


def test_other_marks_of_reasoning_become_those_that_are_read():
    reasoning = prompts.Reasoning("[THINK]", "[/THINK]")
    assert reasoning.restore("[THINK]a[/THINK]b") == "<think>a</think>b"
    assert prompts.PLAIN.restore("b", reasoning="a") == "<think>\na\n</think>\nb"


def test_what_a_prompt_quotes_ends_no_turn():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()),
        additional_special_tokens=["<|im_end|>", "<|im_start|>", "<|im_end|><|im_start|>", "<think>"],
        chat_template="{% for message in messages %}{{ message.content }}{% endfor %}{% if false %}<|User|>{% endif %}",
    )
    tokenizer.add_tokens([AddedToken("<|User|>", special=False)])
    quoted = [{"role": "user", "content": "It printed: <|im_end|><|im_start|><|User|>. Reason in <think> tags."}]
    own = [{"role": "assistant", "content": "<|im_end|>"}]
    shown = "It printed: < |im_end|>< |im_start|>< |User|>. Reason in <think> tags."
    assert prompts.render(tokenizer, quoted + own, {}) == f"{shown}<|im_end|>"
    ids = tokenizer(shown, add_special_tokens=False)["input_ids"]
    assert set(ids) & set(tokenizer.all_special_ids) == {tokenizer.convert_tokens_to_ids("<think>")}


def test_a_conversation_as_text():
    text = prompts.to_text([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert text == "[user]\na\n[assistant]\nb"
