"""From a task to the messages that a policy is asked with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from kernelrl import dialects
from kernelrl.errors import UserError
from kernelrl.policies.settings import DEFAULT, ModelSettings
from kernelrl.task import Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Message(TypedDict):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Reasoning:
    """How a policy marks its chain of thought, and what its chat template has already written of it.

    Templates of models that always reason (Qwen3-Thinking, distillations of R1) end the prompt with `<think>`. What the
    policy writes then begins in the middle of its reasoning; where it is cut off there, no mark says so, and a draft in
    it would be taken for the answer.
    """

    start: str = "<think>"
    end: str = "</think>"
    opening: str = ""
    """The end of every prompt from `start` on, e.g. `<think>` and a newline; empty: the policy writes it itself."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, settings: ModelSettings = DEFAULT) -> Reasoning:
        """Of a policy with that tokenizer that is asked as the settings say."""
        start, end = settings.reasoning.start, settings.reasoning.end
        prompt = render(tokenizer, [_user("?")], settings.chat_template_kwargs)
        before, found, after = prompt.rpartition(start)
        return cls(start, end, found + after if found and not after.strip() else "")

    def restore(self, text: str, reasoning: str = "") -> str:
        """A completion as `Completion.parse` reads it: begun by what the template wrote, with `<think>` for the marks.

        Args:
            text: as the policy wrote it.
            reasoning: its chain of thought, where something took it out of the text before; then it has ended.
        """
        if reasoning:
            return f"<think>\n{reasoning}\n</think>\n{text}"
        return (self.opening + text).replace(self.start, "<think>").replace(self.end, "</think>")


PLAIN = Reasoning()
"""`<think>` tags, which the policy writes itself."""


def render(tokenizer: PreTrainedTokenizerBase, messages: list[Message], template: Mapping[str, Any]) -> str:
    """The prompt as the policy reads it, up to where it goes on.

    Args:
        template: keyword arguments of its chat template.

    Raises:
        UserError: it has no chat template.
    """
    if tokenizer.chat_template is None:
        raise UserError(
            f"the model {tokenizer.name_or_path} has no chat template, and so cannot be asked: "
            "put a chat_template.jinja beside its tokenizer, or take the model's instruct version"
        )
    asked = cast(list[dict[str, str]], without_marks(messages, marks_of(tokenizer)))
    return str(tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False, **template))


_ASKED_FOR = {"<think>", "</think>"}
"""Marks that prompts name, whether or not they are one token of the policy's."""


def marks_of(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Texts that it reads as one token of its own, the longest first: one may be the end of another."""
    template = str(tokenizer.chat_template)
    added = [token for token in tokenizer.added_tokens_decoder.values() if len(token.content.strip()) > 1]
    own = {token.content for token in added if token.special or token.content in template} - _ASKED_FOR
    return sorted(own, key=len, reverse=True)


def without_marks(messages: Sequence[Message], marks: Sequence[str]) -> list[Message]:
    """The conversation with a space in each mark of a tokenizer's (`< |im_end|>`), see `marks_of`.

    Feedback quotes what a kernel prints, and a judge is shown what another policy wrote: neither may end a turn.
    What the policy wrote itself is left as it is, because templates look for reasoning there.
    """
    return [
        message if message["role"] == "assistant" else Message(role=message["role"], content=_broken(message, marks))
        for message in messages
    ]


def _broken(message: Message, marks: Sequence[str]) -> str:
    content = message["content"]
    for mark in marks:
        content = content.replace(mark, f"{mark[0]} {mark[1:]}")
    return content


STYLES = ("short", "full", "category", "transpile", "surge")


def build_prompt(task: Task, dialect: str, style: str) -> list[Message]:
    """The conversation that ends with the question.

    Args:
        style: `short` is one sentence and the program, for models that are trained on this format; `full` states the
            contract and shows the dialect's example, for models that have never seen it; `category` shows an example
            of the task's own category where there is one (MultiKernelBench, arXiv 2507.17773); `transpile` shows the
            task's kernel in another dialect and asks for the same in this one (HPCTransCompile, arXiv 2506.10401);
            `surge` shows a judged kernel and asks how probable it is that it is right (SURGE, arXiv 2502.11167).

    Raises:
        UserError: unknown dialect or style, or a task without a kernel to translate.
    """
    language = dialects.get(dialect)
    if style == "short":
        request = f"Rewrite this program as one {language.title} kernel, `ModelNew`."
        return [_user(f"{request}{_ask_for_cases(task)}\n{_fence(task.source)}")]
    if style == "transpile":
        if task.given is None:
            raise UserError(f"prompt.style=transpile: task {task.id} has no kernel to translate; use tasks=transpile")
        title = dialects.get(task.given.dialect).title
        return [_user(f"Translate this {title} kernel into {language.title}, `ModelNew`.\n{_fence(task.given.source)}")]
    if style == "surge":
        if task.given is None:
            raise UserError(f"prompt.style=surge: task {task.id} has no kernel to judge; use tasks=surge")
        title = dialects.get(task.given.dialect).title
        return [
            _user(
                f"This program:\n{_fence(task.source)}\nis to be replaced by this {title} kernel:\n"
                f"{_fence(task.given.source)}\nA kernel is correct if it compiles, computes all in its own code, "
                "and gives the program's outputs for hidden inputs too. How probable is it that this one is? Answer "
                "with your reasoning in <think> tags and then one line: CORRECT: a probability from 0 to 1."
            )
        ]
    if style in ("full", "category"):
        category = task.category if style == "category" else ""
        program, kernel = dialects.example(dialect, category)
        return [
            _user(
                "You write kernels that replace PyTorch programs: same inputs, same outputs, less time.\n"
                f"Write the kernel in {language.title}. Answer with your reasoning in <think> tags and then one Python "
                "code block that defines `ModelNew`, which takes the same arguments as `Model`. Every computation must "
                "happen inside your kernel; from torch use only allocation and views.\n\n"
                f"For example, this program:\n{_fence(program)}\n"
                f"is replaced by this answer:\n{_fence(kernel)}\n"
                f"Now replace this program:{_ask_for_cases(task)}\n{_fence(task.source)}"
            )
        ]
    raise UserError(f"prompt.style={style!r} is not known; choose one of {', '.join(STYLES)}")


def to_text(messages: list[Message]) -> str:
    """A conversation as plain text, for the ledger."""
    return "\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)


def from_text(text: str) -> list[Message]:
    """The conversation that `to_text` wrote."""
    parts = re.split(r"(?:^|\n)\[(system|user|assistant)\]\n", text)[1:]
    turns = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": role, "content": content} for role, content in turns]  # type: ignore[typeddict-item]


def _ask_for_cases(task: Task) -> str:
    if task.case_of is None:
        return ""
    return " It must be right for other arguments of the constructor and for other inputs, too."


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _fence(source: str) -> str:
    return f"```python\n{source.rstrip()}\n```\n"
