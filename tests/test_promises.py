"""The executor's ten promises (docs/executor.md), each with a candidate that breaks it and is seen.

Static rules are off where a promise must hold without them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from conftest import KERNELS, REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge
from kernelrl import dialects
from kernelrl.errors import TaskError
from kernelrl.executor import Executor, ExecutorSettings, machine, make_executor
from kernelrl.executor.contest.distributions import DISTRIBUTIONS, NOT_FINITE, redraw
from kernelrl.executor.contest.drawing import Drawing, Further
from kernelrl.executor.judging.arena import Case, Draw, Shape
from kernelrl.executor.judging.compare import Expected
from kernelrl.executor.judging.reference import CROSSED
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.legality import symbols
from kernelrl.task import Task

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
ON_THE_PAGE = re.findall(r"^```python\n# (\w+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
"""Programs with their dialects, the task first."""


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    """The dynamic defences alone."""
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "static_rules": False}) as engine:
        yield engine


@pytest.fixture(scope="module")
def judging(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    """All defences."""
    with kept_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        yield engine


def rules(verdict: object) -> set[str]:
    return {violation.rule for violation in verdict.violations}  # type: ignore[attr-defined]


def python(body: str, init: str = "pass") -> str:
    return f"""\
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {body}
"""


# 1 and 2: what is checked is what is timed, on inputs that were never seen


def test_a_kernel_that_is_right_only_until_timing_is_caught(executor: Executor) -> None:
    checked = FAST["trials"] + len(DISTRIBUTIONS)  # type: ignore[operator]
    source = python(f"self.n += 1\n        return torch.relu(x) * (2.0 if self.n <= {checked} else 3.0)", "self.n = 0")
    verdict = judge(executor, source, dialect="python")
    assert verdict.status == "incorrect" and "timed" in verdict.feedback


def test_inputs_are_fresh_even_where_the_task_draws_nothing_at_random(executor: Executor) -> None:
    task = REFERENCE.replace("torch.randn(256, 1024)", "torch.arange(4096.0)")
    cached = python(
        "self.y = torch.relu(x) * 2.0 if self.y is None else self.y\n        return self.y.clone()", "self.y = None"
    )
    assert judge(executor, cached, task, "python").status == "incorrect"
    assert judge(executor, python("return torch.relu(x) * 2.0"), task, "python").correct


def test_a_seed_of_the_tasks_own_does_not_bring_the_same_inputs_again(executor: Executor) -> None:
    """Not even in another order, which has the same norm."""
    for seeded in (
        "torch.manual_seed(0)\n    return [torch.randn(SIZE",
        "rng = torch.Generator().manual_seed(0)\n    return [torch.randn(SIZE, generator=rng",
    ):
        task = REFERENCE.replace("return [torch.randn(256, 1024", seeded.replace("SIZE", "64, 64"))
        forgetful = python(
            "values = x.flatten().sort().values\n"
            "        self.y += any(torch.equal(values, old) for old in self.seen)\n"
            "        self.seen.append(values)\n        return torch.relu(x) * 2.0 + self.y",
            "self.seen, self.y = [], 0",
        )
        verdict = judge(executor, forgetful, task, "python")
        assert verdict.correct, verdict.feedback


def test_inputs_that_are_constant_vary_in_timed_calls(executor: Executor) -> None:
    task = REFERENCE.replace("torch.randn(256, 1024)", "torch.ones(64, 64)")
    most = 1 + len(DISTRIBUTIONS)
    reader_of_one = python(
        f"self.n += bool((x == x[0, 0]).all())\n        return torch.relu(x) * (2.0 if self.n <= {most} else 3.0)",
        "self.n = 0",
    )
    verdict = judge(executor, reader_of_one, task, "python")
    assert verdict.correct, verdict.feedback


def test_inputs_of_which_there_are_few_are_no_measure_of_speed(executor: Executor) -> None:
    """A kernel may keep what it has computed for each."""
    task = REFERENCE.replace("torch.randn(256, 1024)", "(torch.rand(2) > 0.5).float()")
    verdict = judge(executor, python("return torch.relu(x) * 2.0"), task, "python")
    assert verdict.correct and verdict.speedup is None and "repeat from call to call" in verdict.feedback


def test_the_keys_of_a_dictionary_have_no_order(executor: Executor) -> None:
    task = REFERENCE.replace("return torch.relu(x) * 2.0", 'return {"a": torch.relu(x), "b": [x * 2.0, x + 1.0]}')
    for body, right in (
        ('{"b": (x * 2.0, x + 1.0), "a": torch.relu(x)}', True),
        ('{"b": (x + 1.0, x * 2.0), "a": torch.relu(x)}', False),
        ('{"a": x * 2.0, "b": [torch.relu(x), x + 1.0]}', False),
    ):
        assert judge(executor, python(f"return {body}"), task, "python").correct == right


def test_a_text_beside_the_outputs_must_be_right_for_each_input(executor: Executor) -> None:
    task = REFERENCE.replace("return torch.relu(x) * 2.0", 'return "odd" if int(x.sum()) % 2 else "even", x * 2.0')
    same = python('return "odd" if int(x.sum()) % 2 else "even", x * 2.0')
    assert judge(executor, same, task, "python").correct
    verdict = judge(executor, python('return "odd", x * 2.0'), task, "python")
    assert verdict.status == "incorrect" and "another structure" in verdict.feedback


# 3: deferred work is not there when the outputs are read


def test_work_in_a_background_thread_is_too_late(executor: Executor) -> None:
    """And Python's threads wait for each other with a timeout, which is a clock."""
    body = """import threading, time
        out = torch.empty_like(x)
        def work(x=x.clone()):
            time.sleep(0.05)
            torch.mul(torch.relu(x), 2.0, out=out)
        threading.Thread(target=work).start()
        return out"""
    assert judge(executor, python(body), dialect="python").status in ("incorrect", "runtime_error", "illegal")


# 4: outputs are plain tensors of their own


def test_an_output_buffer_may_not_be_used_twice(executor: Executor) -> None:
    source = python(
        "torch.mul(torch.relu(x), 2.0, out=self.out)\n        return self.out", "self.out = torch.empty(256, 1024)"
    )
    assert rules(judge(executor, source, dialect="python")) == {"output_reused"}


def test_an_output_may_not_lie_in_an_input(executor: Executor) -> None:
    task = REFERENCE.replace("torch.relu(x) * 2.0", "x[:1]")
    task = task.replace("x[:1]", "x[:1] * 1.0")
    assert rules(judge(executor, python("return x[:1]"), task, "python")) == {"output_aliases_input"}


# 5: inputs, parameters, random numbers and settings stay as they were


@pytest.mark.parametrize(
    ("body", "rule", "named"),
    [
        ("y = torch.relu(x) * 2.0\n        x.zero_()\n        return y", "input_mutated", "an input"),
        ("self.w.data += 1\n        return torch.relu(x) * 2.0", "parameters_mutated", "parameters"),
        ("torch.rand(1)\n        return torch.relu(x) * 2.0", "state_changed", "random numbers"),
        ("torch.set_num_threads(1)\n        return torch.relu(x) * 2.0", "state_changed", "number of threads"),
        (
            "torch.set_default_dtype(torch.float64)\n        return torch.relu(x) * 2.0",
            "state_changed",
            "default dtype",
        ),
        ("torch.use_deterministic_algorithms(True)\n        return torch.relu(x) * 2.0", "state_changed", "determin"),
        ("import os; os.chdir('/')\n        return torch.relu(x) * 2.0", "state_changed", "working directory"),
    ],
)
def test_what_a_call_must_leave_alone(executor: Executor, body: str, rule: str, named: str) -> None:
    verdict = judge(executor, python(body, "self.w = nn.Parameter(torch.zeros(3))"), dialect="python")
    assert rules(verdict) == {rule}
    assert named in verdict.violations[0].evidence


def test_a_setting_changed_on_import_is_seen_too(executor: Executor) -> None:
    source = "import torch\ntorch.set_num_threads(1)\n" + python("return torch.relu(x) * 2.0")
    assert rules(judge(executor, source, dialect="python")) == {"state_changed"}


# 6: the work is the candidate's own


def test_the_library_is_seen_whenever_it_works(executor: Executor) -> None:
    """Its own kernel in all calls that are checked, the library when it is timed: one of those calls is recorded."""
    checked = FAST["trials"] + len(DISTRIBUTIONS)  # type: ignore[operator]
    source = RIGHT.replace(
        "        out = torch.empty_like(x)\n",
        f"        self.n = getattr(self, 'n', 0) + 1\n        if self.n > {checked}:\n"
        "            return torch.relu(x) * 2.0\n        out = torch.empty_like(x)\n",
    )
    assert rules(judge(executor, source)) == {"library_operator"}


def test_a_modules_symbols_show_whom_it_calls() -> None:
    foul = ["cblas_sgemm", "SGEMM", "dlsym@GLIBC_2.34", "fork", "chmod", "std::thread::_M_start_thread()"]
    assert symbols.foreign(foul, "tvm_ffi", cuda=False) == [symbol.partition("@")[0] for symbol in foul]
    known = ["GOMP_parallel@GOMP_4.0", "expf@GLIBC_2.27", "memcpy@GLIBC_2.14", "operator new(unsigned long)"]
    known += ["__extendhfdf2@GCC_12.0.0", "__truncsfbf2@GCC_13.0.0"]  # conversions of 16-bit numbers
    assert not symbols.foreign(known, "tvm_ffi", cuda=False)
    operators = ["at::_ops::mm::call(at::Tensor const&)", "at::_ops::empty_like::call(at::Tensor const&)"]
    assert symbols.foreign(operators, "torch", cuda=False) == operators[:1]


def test_a_pasted_name_does_not_hide_a_call(judging: Executor) -> None:
    """The text says `sg` and `emm_`; the module says `sgemm_`."""
    hidden = RIGHT.replace(
        "void kernel",
        '#define JOIN2(a, b) a%:%:b\n#define JOIN(a, b) JOIN2(a, b)\nextern "C" void JOIN(sge, mm_)(...);\nvoid kernel',
    ).replace("int64_t n", "if (a == nullptr) JOIN(sge, mm_)(0);\n  int64_t n")
    verdict = judge(judging, hidden)
    assert verdict.status == "illegal" and "library_symbol" in rules(verdict)


# 7: hidden seeds, distributions and shapes, in the task's precision


@pytest.mark.parametrize(
    ("reference", "shortcut", "inputs"),
    [
        ("x.amax(dim=1)", "torch.clamp_min(x.amax(dim=1), 0.0)", "negative"),
        ("torch.softmax(x, dim=1)", "torch.exp(x) / torch.exp(x).sum(1, keepdim=True)", "large"),
        ("x / (1e-12 + x.abs().amax())", "x / (1e-3 + x.abs().amax())", "tiny"),
        ("x.argmax(dim=1)", "x.shape[1] - 1 - x.flip(1).argmax(dim=1)", "ties"),
        ("(x > 0.5).sum(dim=1)", "torch.full_like(x, 0.308537).sum(1).round().long() * 0 + (x > 0.5).sum(1)", None),
    ],
)
def test_hidden_distributions_find_shortcuts(
    executor: Executor, reference: str, shortcut: str, inputs: str | None
) -> None:
    task = REFERENCE.replace("torch.relu(x) * 2.0", reference)
    verdict = judge(executor, python(f"return {shortcut}"), task, "python")
    assert verdict.correct if inputs is None else inputs in {error.inputs for error in verdict.errors}, verdict.feedback


def test_new_values_stay_in_the_support_of_the_tasks_own() -> None:
    generator = torch.Generator().manual_seed(0)
    for name in (each for each in DISTRIBUTIONS if each not in NOT_FINITE):
        for drawn in (torch.rand(1000), torch.rand(1000) + 0.5, torch.randint(3, 9, (1000,))):
            new = redraw(name, drawn, generator)
            if new is not None:
                assert new.dtype == drawn.dtype and new.shape == drawn.shape
                assert new.min() >= min(0, drawn.min()) and (drawn.is_floating_point() or new.max() <= drawn.max())
    assert redraw("large", torch.randint(3, 9, (10,)), generator) is None


def test_new_values_are_finite_in_a_type_that_has_no_large_numbers() -> None:
    generator = torch.Generator().manual_seed(0)
    for name in (each for each in DISTRIBUTIONS if each not in NOT_FINITE):
        new = redraw(name, torch.randn(1000).half(), generator)
        assert new is not None and bool(new.isfinite().all())
    with Drawing("wide", 0, Further(most=4096.0)):
        assert bool(torch.randn(1000).half().isfinite().all())
    with Drawing("wide", 0, Further()):
        assert not bool(torch.randn(1000).half().isfinite().all())


SHAPES = """\
import torch
from torch import nn

ROWS = 64
COLUMNS = 128
SHAPE_RANGES = {"ROWS": (65, 90), "COLUMNS": (129, 300)}

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
"""


def test_hidden_shapes_find_a_kernel_for_one_shape(executor: Executor) -> None:
    fixed = RIGHT.replace("int64_t n = x.numel();", "int64_t n = 64 * 128;")
    fixed = fixed.replace("torch.empty_like(x)", "torch.full_like(x, -1.0)")
    assert judge(executor, RIGHT, SHAPES).correct
    verdict = judge(executor, fixed, SHAPES)
    num_wrong = (1 + CROSSED) * ExecutorSettings().shapes  # each size on the task's own inputs, and on hidden ones
    assert ["ROWS=" in error.inputs for error in verdict.errors] == [True] * num_wrong, verdict.feedback


def test_bad_shape_ranges_are_named() -> None:
    for ranges, named in (('{"WIDTH": (1, 2)}', "WIDTH"), ('{"ROWS": (5, 2)}', "empty"), ("[3]", "literal")):
        source = SHAPES.replace('{"ROWS": (65, 90), "COLUMNS": (129, 300)}', ranges)
        with pytest.raises(TaskError, match=named):
            Task(id="t", source=source).check_source()


def test_small_outputs_need_small_errors(executor: Executor) -> None:
    """1e-4 is no tolerance for a softmax over thousands of columns."""
    task = REFERENCE.replace("torch.relu(x) * 2.0", "torch.softmax(x, dim=1)")
    near = python("return torch.softmax(x, dim=1) + 2e-5")
    assert judge(executor, near, task, "python").status == "incorrect"


@pytest.mark.parametrize("size", [1e-25, 1e-12, 1.0])
def test_however_small_an_output_is_its_last_digits_are_free(size: float) -> None:
    exact = size * torch.linspace(1.0, 2.0, 64, dtype=torch.float64)
    expected = Expected.around(exact, exact.float(), "torch.float32", Task(id="t", source=REFERENCE), scaled=True)
    assert expected.accepts((exact * (1 + 1e-5)).float())
    assert not expected.accepts((exact * (1 + 1e-3)).float())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4, 2048])
def test_what_is_not_written_is_not_zero(executor: Executor, rows: int) -> None:
    """Fresh memory is: a kernel that leaves out the zeros would be right by luck. Some calls find zeros."""
    careless = RIGHT.replace("o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f", "if (a[i] > 0.0f) o[i] = 2.0f * a[i]")
    assert judge(executor, careless, REFERENCE.replace("256", str(rows))).status == "incorrect"


def test_lower_precision_than_the_task_asks_for_is_wrong(executor: Executor) -> None:
    verdict = judge(executor, python("return (torch.relu(x).bfloat16() * 2.0).float()"), dialect="python")
    assert verdict.status == "incorrect"


# 8: a speedup is a ratio of interleaved times


@pytest.mark.slow
def test_kernelbenchs_protocol_is_a_config(executor_cache: Path) -> None:
    from kernelrl.configs import compose_config, read_node

    settings = read_node(ExecutorSettings, compose_config("check", ["executor=kernelbench"]).executor, "executor")
    assert (settings.protocol, settings.trials, settings.distributions) == ("kernelbench", 5, ())
    quick = settings.model_copy(update={"min_pairs": 9, "max_pairs": 9, "cache_dir": str(executor_cache)})
    with make_executor(quick) as engine:
        verdict = judge(engine, RIGHT)
        near = judge(engine, python("return torch.relu(x) * 2.0 + 5e-5"), dialect="python")
    assert verdict.correct and verdict.protocol == "kernelbench" and verdict.trials > 5 + 9
    assert verdict.conditions is not None and verdict.conditions.cache == "cold"
    assert near.correct, "within KernelBench's tolerance"


class Diary:
    """Stands for a process and its arena, and writes down what is done with them."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def ask(self, message: dict[str, str], timeout: float, alone: bool) -> tuple[dict[str, str], float]:
        assert alone, "nothing else runs while it is timed"
        self.pages.append(message["do"])
        return {}, 0.0

    def arrange(self, layout: object, ask: object) -> None:
        self.pages.append("arrange")

    def put(self, image: object, outputs: object, ask: object) -> None:
        self.pages.append("inputs")


def test_caches_are_flushed_between_the_inputs_and_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary()
    monkeypatch.setattr(machine, "settle_caches", diary.pages.append)
    case = Case(Draw(0), Shape({}, {}, None, [], [], set()), torch.empty(0), [], [], {}, None)
    settings = ExecutorSettings(cpu_cache="cold")
    time_call(diary, diary, case, settings)  # type: ignore[arg-type]
    assert diary.pages == ["arrange", "inputs", "cold", "run"]


@pytest.mark.slow
def test_torch_compile_is_a_second_baseline(executor_cache: Path) -> None:
    broken = REFERENCE.replace(
        "torch.relu(x) * 2.0", "torch.relu(x) * (2.0 if not torch.compiler.is_compiling() else 3.0)"
    )
    settings = {**FAST, "cache_dir": str(executor_cache), "compile_baseline": "reduce-overhead", "memory_mb": 8192}
    with make_executor(settings) as engine:
        verdict = judge(engine, RIGHT)
        other = judge(engine, RIGHT, broken)
    assert verdict.correct and verdict.baseline == ""
    assert verdict.compiled_ms is not None and verdict.speedup_compiled is not None
    assert verdict.compile_mode == "reduce-overhead" and other.compile_mode is None
    assert other.correct and other.speedup_compiled is None and "wrong" in other.baseline


# 9 is in test_executor_faults.py; 10:


@pytest.mark.slow
def test_a_verdict_of_other_settings_is_another_verdict(executor_cache: Path, judging: Executor) -> None:
    source = KERNELS["wrong"] + "\n# settings"
    assert not judge(judging, source).cached and judge(judging, source).cached
    with make_executor({**FAST, "trials": 3, "cache_dir": str(executor_cache)}) as engine:
        assert not judge(engine, source).cached


@pytest.mark.slow
@pytest.mark.parametrize("name", dialects.names())
def test_every_dialects_example_is_an_honest_candidate(judging: Executor, name: str) -> None:
    """CUDA's is compiled and not run: there is no GPU."""
    if name == "cuda" and shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    task = dialects.EXAMPLE_TASK.replace("1024, 1024", "64, 256")
    verdict = judge(judging, dialects.get(name).example, task, name)
    assert verdict.status == ("not_run" if name == "cuda" else "correct"), verdict.feedback
    assert not verdict.violations


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(ON_THE_PAGE)))
def test_every_kernel_of_the_page_on_writing_kernels_is_an_honest_candidate(judging: Executor, number: int) -> None:
    (_, task), (dialect, kernel) = ON_THE_PAGE[0], ON_THE_PAGE[number]
    if dialect == "cuda" and shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    verdict = judge(judging, kernel, task, dialect)
    assert verdict.status == ("not_run" if dialect == "cuda" else "correct"), verdict.feedback


# what memory a candidate needs is measured from outside, too

SHIFTED = Task(
    id="shifted", source=REFERENCE.replace("torch.relu(x) * 2.0", "torch.relu(x) * 2.0 + 1.0").replace("256", "1024")
)


@pytest.mark.slow
def test_peak_memory_is_that_of_the_program(executor: Executor) -> None:
    """Identical code holds the same, whatever other sizes there are; what is kept while it is loaded counts."""
    same = SHIFTED.source.replace("class Model(", "class ModelNew(")
    hoarder = same.replace("class ModelNew", "kept = torch.ones(16, 1024, 1024)\n\n\nclass ModelNew")
    alike, hoarding = (judge(executor, text, SHIFTED, "python").memory for text in (same, hoarder))
    assert alike is not None and abs(alike.candidate_mb - alike.reference_mb) < 0.5 < 4 < alike.reference_mb < 20
    assert hoarding is not None and 60 < hoarding.candidate_mb - hoarding.reference_mb < 68
    source = SHIFTED.source.replace("(1024, 1024)", "(ROWS, 1024)")
    sized = Task(id="sized", source=f"ROWS = 1024\nSHAPE_RANGES = {{'ROWS': (512, 8192)}}\n{source}")
    small = judge(executor, same, sized, "python").memory
    assert small is not None and abs(small.candidate_mb - alike.candidate_mb) < 0.5


def test_memory_is_not_guessed(executor: Executor) -> None:
    assert judge(executor, KERNELS["broken"]).memory is None
