"""What counts as the kernel of a completion: robust against drafts, truncation and hostile text."""

import random

import pytest

from kernelrl.candidate import MAX_SOURCE_CHARS, Candidate, Completion

FINAL = "import torch\n\nclass ModelNew(torch.nn.Module):\n    final = True\n"
DRAFT = "import torch\n\nclass ModelNew(torch.nn.Module):\n    final = False\n"


def fenced(source, language="python", marks="```"):
    return f"{marks}{language}\n{source}{marks}\n"


def source_of(text):
    return Completion.parse(text).source


def test_reasoning_answer_and_kernel_are_separated():
    completion = Completion.parse(f"<think>\nfuse it\n</think>\n{fenced(FINAL)}")
    assert (completion.reasoning, completion.source) == ("fuse it", FINAL)
    assert completion.answer.strip() == fenced(FINAL).strip()
    assert completion.blocks == (FINAL,)


def test_a_lone_closing_tag_ends_the_reasoning():
    """Chat templates that open `<think>` themselves leave only the closing tag in the completion."""
    completion = Completion.parse(f"fuse it\n</think>\n{fenced(FINAL)}")
    assert (completion.reasoning, completion.source) == ("fuse it", FINAL)


@pytest.mark.parametrize(
    "text",
    [
        fenced(FINAL),
        fenced(FINAL, language=""),
        fenced(FINAL, language="Python"),
        fenced(FINAL, language="python title=kernel.py"),
        fenced(FINAL, marks="~~~"),
        fenced(FINAL, marks="````"),
        f"<think>{fenced(DRAFT)}</think>{fenced(FINAL)}",
        f"{fenced(DRAFT)}Better:\n{fenced(FINAL)}",
        f"{fenced(FINAL)}Helpers:\n{fenced('x = 1')}",
        f"{fenced(FINAL)}Run it:\n{fenced('python kernel.py', language='bash')}",
        f"```python\nunfinished draft\n{fenced(FINAL)}",
        f"```markdown\n{fenced(FINAL)}```\n",
        f"{fenced(FINAL)}class ModelNew: pass  # not in a block\n",
        f"{fenced(FINAL)}```python\n{DRAFT}",
        f"{fenced(FINAL)}<think>once more\n{fenced(DRAFT)}",
        fenced(FINAL).replace("\n", "\r\n"),
        "1. The kernel:\n" + "".join(f"   {line}\n" for line in fenced(FINAL).splitlines()),
        f"a ``` in prose, and `ModelNew` too\n{fenced(FINAL)}",
        fenced(FINAL).rstrip("\n"),
    ],
)
def test_the_last_complete_block_that_defines_the_entry_point_wins(text):
    assert source_of(text).strip() == FINAL.strip()


def test_longer_fences_may_hold_shorter_ones():
    kernel = f'{FINAL}\nUSAGE = """\n{fenced("ModelNew()")}"""\n'
    assert source_of(fenced(kernel, marks="````")) == kernel


def test_the_entry_point_may_be_an_assignment():
    assert source_of(fenced("class Fused: pass\nModelNew = Fused\n")) == "class Fused: pass\nModelNew = Fused\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot do that.",
        FINAL,
        fenced("class Model: pass\n"),
        fenced("class ModelNewer: pass\n"),
        fenced("# class ModelNew\nprint('class ModelNew')\n"),
        fenced("def f():\n    class ModelNew: pass\n"),
        fenced("class Model\u039dew: pass\n"),
        fenced("\u0441lass ModelNew: pass\n"),
        fenced(FINAL + "\0"),
        fenced(FINAL + "#" * MAX_SOURCE_CHARS + "\n"),
        f"```python\n{FINAL}",
        f"```python\n{FINAL}~~~\n",
        f"````python\n{FINAL}```\n",
        f"<think>{fenced(FINAL)}",
        f"<think>{fenced(FINAL)}</think>",
        f"<think>a</think>{fenced('x = 1')}<think>{fenced(FINAL)}</think>",
        "```",
        "</think>",
        "<think>",
        "\0",
    ],
)
def test_no_kernel_is_an_answer_not_an_exception(text):
    completion = Completion.parse(text)
    assert completion.source is None
    assert completion.candidate("cpp") is None


def test_lone_surrogates_can_be_stored():
    completion = Completion.parse(fenced(FINAL + "x = '\ud800'\n"))
    assert completion.source == FINAL + "x = '?'\n"
    assert Completion.model_validate_json(completion.model_dump_json()) == completion


@pytest.mark.parametrize(
    "unit",
    [
        "```\n",
        "```",
        " ",
        "\n",
        "```python\n",
        "<think>",
        "</think>",
        "class ",
        "   ```python\n   x\n   ```\n",
        "~" * 99 + " ",
    ],
)
def test_ten_megabytes_parse(unit):
    """Anything worse than linear time would not come back from this."""
    text = unit * (10_000_000 // len(unit)) + "!"
    assert Completion.parse(text).source is None


def test_whatever_is_written_there_is_a_kernel_of_the_answer_or_none():
    pieces = [
        "```",
        "```python\n",
        "````",
        "~~~",
        "\n",
        "\r\n",
        "  ",
        "<think>",
        "</think>",
        "\0",
        "\ud800",
        "word ",
        FINAL,
        DRAFT,
    ]
    rng = random.Random(0)
    num_kernels = 0
    for _ in range(3000):
        completion = Completion.parse("".join(rng.choices(pieces, k=rng.randint(0, 25))))
        assert Completion.model_validate_json(completion.model_dump_json()) == completion
        assert completion.text.endswith(completion.answer) or "<think>" in completion.text
        if completion.source is not None:
            num_kernels += 1
            assert "class ModelNew" in completion.source and completion.source in completion.blocks
            assert "</think>" not in completion.source
    assert num_kernels > 20


def test_digest_tells_dialect_and_source_apart():
    digests = {Candidate(source=s, dialect=d).digest for s in ("a", "b") for d in ("cpp", "triton")}
    assert len(digests) == 4
    assert Completion.parse(fenced(FINAL)).candidate("cpp") == Candidate(source=FINAL, dialect="cpp")
