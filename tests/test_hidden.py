"""Nothing is constant that the task does not call so: hidden parameters and inputs, and what rounding allows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

from candidate_files import HERE, HONEST, from_file
from executor_cases import FAST, judge
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.construction import Construction
from kernelrl.executor.contest.distributions import vary
from kernelrl.executor.contest.drawing import Drawing
from kernelrl.executor.contest.rounding import Rounding
from kernelrl.executor.judging.compare import Expected, Indexed
from kernelrl.executor.judging.parameters import draw_given, find_astray, match_given
from kernelrl.task import Task

UNTIMED = {**FAST, "timing": False, "static_rules": False}
TASK = Task(id="t", source="")


@pytest.fixture(scope="module")
def executor(executor_cache: Path) -> Iterator[Executor]:
    with make_executor({**UNTIMED, "cache_dir": str(executor_cache)}) as engine:
        yield engine


def program(init: str, forward: str, name: str = "Model") -> str:
    return f"""\
import torch
from torch import nn


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        {forward}


def get_inputs():
    return [torch.randn(16, 8)]


def get_init_inputs():
    return []
"""


# parameters


def constructed(make: Any, hidden: str | None = "seed", given: dict[int, torch.Tensor] | None = None) -> Any:
    construction = Construction(hidden, given or {})
    with construction.watching():
        model = make()
    return model, construction.report(model)


class Two(nn.Module):
    """A matrix and a vector, in either order."""

    def __init__(self, matrix_first: bool):
        super().__init__()
        makers = {"matrix": lambda: torch.randn(4, 5), "vector": lambda: torch.randn(7)}
        for name in sorted(makers, reverse=not matrix_first):
            self.register_parameter(name, nn.Parameter(makers[name]()))


def test_hidden_draws_do_not_depend_on_the_order_of_creation() -> None:
    first, second = constructed(lambda: Two(True))[0], constructed(lambda: Two(False))[0]
    assert torch.equal(first.matrix, second.matrix) and torch.equal(first.vector, second.vector)
    assert not torch.equal(constructed(lambda: Two(True), "other")[0].matrix, first.matrix)


def test_given_values_outlast_the_initialisers_and_what_is_packed_follows() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.norm = nn.LayerNorm(6)
        nn.init.constant_(model.norm.weight, 2.0)
        model.packed = model.norm.weight.detach().clone()
        return model

    _, report = constructed(make, None)
    assert [tensor["origin"] for tensor in report["tensors"]] == ["constant", "constant"]
    given = {0: torch.arange(6.0)}
    model, _ = constructed(make, "seed", given)
    assert torch.equal(model.norm.weight, given[0]) and torch.equal(model.packed, given[0])


def drawn_for(make: Any) -> dict[str, torch.Tensor]:
    model, report = constructed(make, None)
    values = dict(model.named_parameters()) | dict(model.named_buffers())
    given = draw_given(report, lambda tensor: values[tensor["name"]].detach(), 0, computed=True)
    return {report["tensors"][number]["name"]: new for number, new in given.items()}


def test_what_initialisers_make_constant_gets_values_of_its_scale() -> None:
    given = drawn_for(lambda: nn.BatchNorm1d(50))
    assert given.keys() == {"weight", "bias", "running_mean", "running_var"}
    assert all(len(values.unique()) > 40 for values in given.values())
    assert float(given["running_var"].min()) >= 0.5 and float(given["running_var"].max()) <= 1.5
    assert float(given["bias"].abs().max()) <= 0.5


def test_what_a_program_computes_stays_if_it_is_no_parameter() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.register_buffer("mask", torch.tril(torch.ones(4, 4)))
        model.register_buffer("scale", torch.tensor(0.125))
        model.register_buffer("steps", torch.arange(5.0))
        model.gate = nn.Parameter(torch.tensor(0.0))
        model.rotation = nn.Parameter(torch.eye(3))
        return model

    given = drawn_for(make)
    assert given.keys() == {"gate", "rotation"}
    assert float(given["gate"]) > 0.2 and not torch.equal(given["rotation"], torch.eye(3))


def test_constants_are_matched_by_name_and_then_by_shape_and_value() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(6))
            self.gain = nn.Parameter(torch.ones(6))

    _, reference = constructed(lambda: nn.LayerNorm(6), None)
    given = {0: torch.full((6,), 3.0), 1: torch.full((6,), 4.0)}
    _, other = constructed(Own, None)
    assert {number: float(values[0]) for number, values in match_given(reference, given, other).items()} == {
        0: 4.0,
        1: 3.0,
    }
    assert match_given(reference, given, reference) == given
    for forged in (None, [], {"tensors": 3}, {"tensors": [None, {"shape": "x"}]}):
        assert match_given(reference, given, forged) == {}


def test_swapped_parameters_are_found_and_packed_ones_are_not_sure() -> None:
    class Pair(nn.Module):
        def __init__(self, names: str, packed: bool = False):
            super().__init__()
            for name in names:
                drawn = torch.randn(4, 4)
                self.register_parameter(name, nn.Parameter(drawn.t().contiguous() if packed else drawn))

    reference = constructed(lambda: Pair("ab"))[1]
    assert find_astray(reference, reference) == ({}, False)
    assert find_astray(reference, constructed(lambda: Pair("ba"))[1]) == ({1: 0, 0: 1}, True)
    assert find_astray(reference, constructed(lambda: Pair("ab", packed=True))[1]) == ({0: 0, 1: 1}, False)
    for forged in ({"draws": "x", "tensors": [{}]}, {"draws": [[]], "tensors": [{"name": "a", "sum": []}]}, [], None):
        assert find_astray(reference, forged) == ({}, True)


LINEAR = program("self.linear = nn.Linear(8, 8)", "return self.linear(x)")


@pytest.mark.parametrize(
    ("init", "source"),
    [
        ("self.linear = nn.Linear(8, 8)", "keyed"),
        ("self.linear = nn.Linear(8, 8)\n        nn.init.normal_(self.linear.weight)", "by_name"),
    ],
)
def test_the_verdict_says_where_the_parameters_come_from(executor: Executor, init: str, source: str) -> None:
    verdict = judge(executor, program(init, "return self.linear(x)", "ModelNew"), LINEAR, "python")
    assert verdict.correct and verdict.parameters == source, verdict.feedback


def test_a_reference_that_wants_its_own_parameters_keeps_them(executor: Executor) -> None:
    """Where hidden ones make it fail, or the protocol is KernelBench's, both sides are built from the same seed."""
    init = "self.scale = nn.Parameter(torch.ones(8))"
    forward = "assert bool((self.scale == 1).all())\n        return x * self.scale"
    candidate = program(init, "return x * self.scale", "ModelNew")
    verdict = judge(executor, candidate, program(init, forward), "python")
    assert verdict.correct and verdict.parameters == "same_seed", verdict.feedback
    assert (
        judge(
            executor, program("pass", "return x + 1", "ModelNew"), program("pass", "return x + 1"), "python"
        ).parameters
        is None
    )


def test_no_two_constructions_have_the_same_parameters(executor: Executor) -> None:
    """A candidate that is right with all parameters that it has seen, and wrong with others."""
    init = """self.linear = nn.Linear(8, 8)
        seen.add(round(float(self.linear.weight.detach()[0, 0]), 9))"""
    right = program(init, "return self.linear(x) * (1.0 if len(seen) == NUM else 2.0)", "ModelNew")
    right = right.replace("class ModelNew", "seen = set()\n\n\nclass ModelNew")
    verdict = judge(executor, right.replace("NUM", "2"), LINEAR, "python")
    inputs = [error.inputs for error in verdict.errors]
    assert verdict.status == "incorrect" and "normal" in inputs and "task" not in inputs


# inputs


@pytest.mark.parametrize("name", get_args(Distribution))
def test_structure_outlives_a_hidden_distribution(name: Distribution) -> None:
    torch.manual_seed(0)
    with Drawing(name, 1) as drawing:
        square = torch.randn(20, 20)
        labels = torch.randint(0, 2, (50,)).float() * 2 - 1
        share, span = torch.rand(500), torch.empty(500).uniform_(-3.0, 2.0)
        kept, order = torch.bernoulli(torch.full((50,), 0.5)), torch.randperm(30)
        half = torch.randn(100, dtype=torch.float16)
    assert drawing.num_drawn == 7 and (drawing.num_redrawn > 0 or name == "negative")
    upper, both = torch.triu(square), square + square.T
    assert not bool(upper.tril(-1).any()) and torch.equal(both, both.T)
    assert set(labels.tolist()) <= {-1.0, 1.0} and set(kept.tolist()) == {0.0, 1.0}
    assert float(share.min()) >= 0.0 and float(share.max()) < 1.0
    assert float(span.min()) >= -3.0 and float(span.max()) < 2.0
    assert sorted(order.tolist()) == list(range(30)) and half.dtype == torch.float16


@pytest.mark.parametrize(
    "constant", [torch.eye(6), torch.ones(5, 5), torch.arange(9), torch.tril(torch.ones(4, 4)).bool()]
)
def test_constant_inputs_vary_within_their_kind(constant: torch.Tensor) -> None:
    varied = vary(constant, torch.Generator().manual_seed(0))
    assert varied.dtype == constant.dtype and varied.shape == constant.shape and not torch.equal(varied, constant)
    if constant.is_floating_point():
        assert float(varied.min()) >= 0.0
    else:
        assert sorted(varied.flatten().tolist()) == sorted(constant.flatten().tolist())


def test_a_constant_that_the_reference_insists_on_stays(executor: Executor) -> None:
    task = program("pass", "raise ValueError").replace("forward(self, x)", "forward(self, x, eye)")
    task = task.replace("return [torch.randn(16, 8)]", "return [torch.randn(16, 8), torch.eye(8)]")
    reference = task.replace("raise ValueError", "assert bool((eye == torch.eye(8)).all())\n        return x @ eye")
    candidate = task.replace("raise ValueError", "return x.clone()").replace("class Model(", "class ModelNew(")
    assert judge(executor, candidate, reference, "python").correct
    assert (
        judge(executor, candidate, task.replace("raise ValueError", "return x @ eye"), "python").status == "incorrect"
    )


# what rounding allows


def expected(exact: torch.Tensor, native: torch.Tensor, moved: torch.Tensor | None = None) -> Expected:
    described = {
        "dtype": str(native.dtype),
        "shape": list(native.shape),
        "stride": list(native.stride()),
        "device": "cpu",
    }
    return Expected.around(exact, native, described, TASK, scaled=True, moved=moved)


def moved_by_rounding(function: Any, *inputs: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    exact = function(*(each.double() for each in inputs))
    with Rounding(dtype):
        rounded = function(*(each.double() for each in inputs))
    return (rounded - exact).abs()


@pytest.mark.parametrize("num_terms", [100, 10_000])
def test_a_sum_may_err_as_much_as_adding_one_after_another_does(num_terms: int) -> None:
    """Whatever the reference's own error: it is taken as zero here."""
    torch.manual_seed(0)
    rows, vector = 100 * torch.randn(300, num_terms), 100 * torch.randn(num_terms)
    exact = rows.double() @ vector.double()
    moved = moved_by_rounding(torch.mv, rows, vector)
    bounds = expected(exact, exact.float(), moved)
    one_by_one = torch.zeros(300)
    for index in range(num_terms):
        one_by_one += rows[:, index] * vector[index]
    assert bounds.accepts(one_by_one)
    assert not expected(exact, exact.float()).accepts(one_by_one), "else this test shows nothing"
    half = (rows.bfloat16().double() @ vector.bfloat16().double()).float()
    assert not bounds.accepts(half)


def test_more_terms_and_larger_terms_may_err_more_and_a_copy_not_at_all() -> None:
    torch.manual_seed(0)
    few, many = torch.randn(50, 100), torch.randn(50, 10_000)
    by_few, by_many, by_large = (
        float(moved_by_rounding(lambda x: x.sum(dim=1), x).median()) for x in (few, many, 1000 * few)
    )
    assert 50 < by_many / by_few < 200 and 900 < by_large / by_few < 1100
    assert not bool(moved_by_rounding(lambda x: x.t().contiguous(), few).any())
    assert float(moved_by_rounding(torch.mm, few, few.t(), dtype=torch.float64).max()) < 1e-12


def test_verdicts_do_not_hang_on_how_exact_the_reference_is_here(executor_cache: Path) -> None:
    """With the reference's own error taken as zero, honest kernels that add in an order of their own stay right."""
    names = ["matvec_fma", "matmul_naive", "sum_fast_math", "var_welford", "softmax_fast_math"]
    requests = [from_file(path).model_dump(mode="json") for path in HONEST if path.stem in names]
    command = [sys.executable, str(HERE / "exact_reference.py")]
    told = json.dumps({"settings": {**UNTIMED, "cache_dir": str(executor_cache)}, "requests": requests})
    answer = subprocess.run(command, input=told, capture_output=True, text=True, timeout=500)
    assert answer.returncode == 0, answer.stderr
    assert [line.split(":")[0] for line in answer.stdout.splitlines()] == ["correct"] * len(names), answer.stdout


def test_overflowing_alike_is_right() -> None:
    exact = torch.tensor([1.0, 70000.0, -1e6, 65519.0, 3.0], dtype=torch.float64)
    native = torch.tensor([1.0, torch.inf, -torch.inf, 65504.0, torch.nan], dtype=torch.float16)
    bounds = expected(exact, native)
    assert bounds.accepts(native) and not bounds.reliable
    assert bounds.accepts(torch.tensor([1.0, torch.inf, -torch.inf, torch.inf, 3.0], dtype=torch.float16))
    for wrong in ([torch.inf, torch.inf, -torch.inf, 65504.0, 3.0], [1.0, 3.0, -torch.inf, 65504.0, 3.0]):
        assert not bounds.accepts(torch.tensor(wrong, dtype=torch.float16))
    assert not bounds.accepts(torch.tensor([1.0, torch.inf, torch.inf, 65504.0, 3.0], dtype=torch.float16))


def test_equal_values_come_in_any_order() -> None:
    values = torch.tensor([[3.0, 1.0, 3.0, 2.0]])
    indices = values.sort(dim=1, stable=True).indices
    indexed = Indexed.find(indices, [values])
    assert indexed is not None and indexed.dim == 1
    assert indexed.accepts(torch.tensor([[1, 3, 2, 0]])) and indexed.accepts(torch.tensor([[1, 3, 0, 2]]))
    for wrong in ([[1, 3, 0, 0]], [[3, 1, 0, 2]], [[1, 3, 0, 4]], [[1, 3, 0, -2]]):
        assert not indexed.accepts(torch.tensor(wrong))


def test_what_is_below_the_smallest_normal_number_may_be_zero(executor: Executor) -> None:
    task = program("pass", "return x * 0.5")
    flushing = program("pass", "y = x * 0.5\n        return torch.where(y.abs() < 1.2e-38, 0.0, y)", "ModelNew")
    assert judge(executor, flushing, task, "python").correct
    assert judge(executor, program("pass", "return x * 0.5 + 1e-4", "ModelNew"), task, "python").status == "incorrect"
