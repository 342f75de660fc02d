"""Nothing is constant that the task does not call so: hidden parameters and inputs, and what rounding allows."""

from __future__ import annotations

import copy
import json
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from candidate_files import HERE, HONEST, from_file
from conftest import REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge
from kernelrl.executor import Executor, ExecutorSettings, trees
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import constants, distributions
from kernelrl.executor.contest.any_order import in_order
from kernelrl.executor.contest.constants import OF_ALL, VARIATIONS, Variation, count_on, variations
from kernelrl.executor.contest.construction import Construction
from kernelrl.executor.contest.decisions import Decisions
from kernelrl.executor.contest.distances import typical_at_least
from kernelrl.executor.contest.distributions import NOT_FINITE
from kernelrl.executor.contest.drawing import Drawing, Further
from kernelrl.executor.contest.error_sizes import MOST_BYTES, ErrorSizes
from kernelrl.executor.contest.exact import compute
from kernelrl.executor.contest.few_places import vary_few
from kernelrl.executor.contest.layouts import Layouts
from kernelrl.executor.contest.leaving import Leaving
from kernelrl.executor.contest.rounding import NUM_SIGNS, Rounding
from kernelrl.executor.contest.thresholds import Thresholds
from kernelrl.executor.judging import boundary, compare, other_numbers
from kernelrl.executor.judging import cases as cases_room
from kernelrl.executor.judging.arena import Case, Draw, Shape
from kernelrl.executor.judging.boundary import Called
from kernelrl.executor.judging.cases import Cases
from kernelrl.executor.judging.compare import Expected, Indexed, Near
from kernelrl.executor.judging.expectations import LEAST_SCALES
from kernelrl.executor.judging.images import Copies, Images, _numbers_in, find_copies, find_table
from kernelrl.executor.judging.parameters import Match, find_astray, match
from kernelrl.executor.judging.seeds import Seeds
from kernelrl.executor.judging.variation import (
    FARTHEST,
    Slope,
    faint,
    find_drawn,
    find_slopes,
    find_variable,
    one_sided,
    vary,
)
from kernelrl.task import Task

UNTIMED = {**FAST, "timing": False, "static_rules": False}
TASK = Task(id="t", source="")


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**UNTIMED, "cache_dir": str(executor_cache)}) as engine:
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
    construction.finish(model)
    return model, construction.report(model)


class Two(nn.Module):
    """A matrix and a vector, in either order."""

    def __init__(self, matrix_first: bool):
        super().__init__()
        makers = {"matrix": lambda: torch.randn(4, 5), "vector": lambda: torch.randn(7)}
        for name in sorted(makers, reverse=not matrix_first):
            self.register_parameter(name, nn.Parameter(makers[name]()))


def test_complex_parameters_are_pairs_of_real_numbers_and_vary() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.filter = nn.Parameter(torch.ones(6, dtype=torch.complex64))
        model.register_buffer("poles", torch.zeros(3, dtype=torch.complex64))
        return model

    _, report = constructed(make)
    assert [(each["name"], each["dtype"], each["shape"]) for each in report["tensors"]] == [
        ("filter", "torch.float32", [6, 2]),
        ("poles", "torch.float32", [3, 2]),
    ]
    assert find_variable(report, frozenset()) == [0, 1]
    values = {0: torch.rand(6, 2), 1: torch.rand(3, 2)}
    model, _ = constructed(make, given=values)
    assert torch.equal(torch.view_as_real(model.filter.detach()), values[0])
    assert torch.equal(torch.view_as_real(model.poles), values[1])


def test_a_triangular_factor_stays_one() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.factor = nn.Parameter(torch.eye(5))
        return model

    _, report = constructed(make)
    for kind, kept in (("lower", torch.tril), ("upper", torch.triu)):
        confined: dict[int, Any] = {0: kind}
        values = vary(report, lambda _: torch.eye(5), [0], frozenset(), 1, True, confined=confined)[0]
        assert torch.equal(kept(values), values) and int((values != 0).sum()) == 15
        assert bool((values.diagonal() > 0).all())


def test_a_part_that_is_far_smaller_than_the_rest_must_be_there() -> None:
    exact = torch.randn(16, 9, dtype=torch.float64)
    exact[:, 6:] *= 1e-10
    moved = torch.full_like(exact, 1e-7).index_fill(1, torch.tensor([6, 7, 8]), 1e-17)
    about = partial(Expected.around, exact, exact.float(), "torch.float32", TASK, scaled=True, moved=moved)
    nothing = exact.float().index_fill(1, torch.tensor([6, 7, 8]), 0.0)
    near = exact.float() * torch.cat([torch.ones(6), torch.full((3,), 1.1)])
    for expected, accepted in ((about(by_part=True), [False, True]), (about(), [True, True])):
        assert [expected.accepts(each) for each in (nothing, near)] == accepted
    unknown = Expected.around(exact, exact.float(), "torch.float32", TASK, True, moved * 1e8, by_part=True)
    assert unknown.accepts(nothing), "rounding may have made it"


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


def test_what_copies_scales_or_replaces_a_parameter_is_undone() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.query, model.key = nn.Linear(3, 3), nn.Linear(3, 3)
        model.key.load_state_dict(model.query.state_dict())
        model.query.weight.data *= torch.tril(torch.ones(3, 3))
        model.key.bias.data = model.query.bias.data.clone()
        model.copied = nn.Sequential(copy.deepcopy(model.query))
        model.packed = model.query.weight.detach().t().contiguous()
        return model

    _, report = constructed(make)
    names = [tensor["name"] for tensor in report["tensors"]]
    assert names == [f"{each}.{of}" for each in ("query", "key", "copied.0") for of in ("weight", "bias")]
    given = {number: torch.rand(tensor["shape"]) for number, tensor in enumerate(report["tensors"])}
    model, _ = constructed(make, "seed", given)
    assert all(torch.equal(values, given[names.index(name)]) for name, values in model.named_parameters())
    assert torch.equal(model.packed, model.query.weight.t())


def test_tensors_that_share_memory_go_on_sharing_it() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.encoder, model.decoder = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        model.decoder.weight = model.encoder.weight
        model.part = nn.Parameter(model.encoder.weight.detach()[:2])
        return model

    assert drawn_for(make).keys() == {"encoder.weight"}


def drawn_for(make: Any, enlarged: bool = False) -> dict[str, torch.Tensor]:
    """By name, what gets other values."""
    shown = constructed(make, None)[1]
    model, report = constructed(make)
    values = dict(model.named_parameters()) | dict(model.named_buffers())
    drawn = find_drawn(shown, report)
    variable = find_variable(report, drawn)
    given = vary(report, lambda tensor: values[tensor["name"]].detach(), variable, drawn, 0, enlarged)
    return {report["tensors"][number]["name"]: new for number, new in given.items()}


def test_what_initialisers_make_constant_gets_values_of_its_scale() -> None:
    given = drawn_for(lambda: nn.BatchNorm1d(50))
    assert given.keys() == {"weight", "bias", "running_mean", "running_var"}
    assert all(len(values.unique()) > 40 for values in given.values())
    assert float(given["running_var"].min()) >= 0.5 and float(given["running_var"].max()) <= 1.5
    assert float(given["bias"].abs().max()) <= 0.5


def test_what_is_tiny_gets_the_size_that_training_gives_it() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.scale = nn.Parameter(1e-6 * torch.ones(64))
        model.weight = nn.Parameter(1e-4 * torch.randn(64, 64))
        model.bias = nn.Parameter(1e-4 * torch.randn(64))
        model.rate = nn.Parameter(1e-4 * torch.rand(64) + 1e-6)
        model.eps = nn.Parameter(torch.full((64,), 1e-5), requires_grad=False)
        return model

    given = drawn_for(make, enlarged=True)
    assert given.keys() == {"scale", "weight", "bias", "rate"}
    assert float(given["scale"].abs().min()) >= 0.099 and float(given["scale"].abs().max()) <= 1.001
    assert 0 < int((given["scale"] < 0).sum()) < 32, "a gain may have either sign"
    assert 0.1 < float(given["weight"].std()) < 0.2, "64 terms of a product have the size of one"
    assert float(given["rate"].min()) > 0 and float(given["rate"].max()) > 0.5
    far = given["bias"].abs() > 2
    assert 0 < int(far.sum()) < 32 and float(given["bias"].abs().max()) <= FARTHEST
    assert float(drawn_for(make)["scale"].abs().max()) < 2e-6


def test_in_calls_of_their_own_each_bias_lies_on_one_side_of_zero_and_what_is_drawn_is_small() -> None:
    model, report = constructed(lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Conv2d(2, 8, 3)))
    values = dict(model.named_parameters()) | dict(model.named_buffers())
    numbers = range(len(report["tensors"]))
    given = one_sided(report, lambda tensor: values[tensor["name"]].detach(), numbers, seed=3)
    names = [report["tensors"][number]["name"] for number in given]
    assert sorted(names) == ["0.bias", "1.bias", "2.bias"], "no gains, weights or buffers"
    for bias in given.values():
        assert float(bias.abs().min()) >= 1.0 and bool((bias > 0).all() | (bias < 0).all())
    weights = {0: torch.randn(8, 8), 1: torch.arange(3)}
    assert faint(weights, weights).keys() == {0} and float(faint(weights, [0])[0].std()) < 0.02


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


def test_what_a_program_writes_down_and_does_not_train_stays() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.ones = nn.Parameter(torch.ones(3, 3), requires_grad=False)
        model.filter = nn.Conv2d(1, 1, 2, bias=False)
        model.filter.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        model.filter.weight.requires_grad = False
        model.teacher = nn.Linear(2, 2, bias=False).requires_grad_(False)
        return model

    assert drawn_for(make).keys() == {"teacher.weight"}, "which depends on random draws"


def test_integers_and_booleans_that_are_all_equal_become_others() -> None:
    def make() -> nn.Module:
        model = nn.BatchNorm1d(3)
        model.register_buffer("kept", torch.ones(40, dtype=torch.bool))
        model.register_buffer("kinds", torch.zeros(40, dtype=torch.long))
        model.register_buffer("positions", torch.arange(40))
        return model

    given = drawn_for(make)
    assert given.keys() == {"weight", "bias", "running_mean", "running_var", "kept", "kinds"}
    assert 0 < int((~given["kept"]).sum()) < 20 and 0 < int(given["kinds"].sum()) < 20


def test_converted_and_copied_layers_vary_like_new_ones() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        norm = nn.BatchNorm1d(9)
        model.norms = nn.ModuleList([copy.deepcopy(norm), copy.deepcopy(norm)])
        model.register_buffer("gain", torch.ones(1, 1).repeat(1, 9)[:, None])
        model.register_buffer("factor", torch.tensor(0.5))
        model.register_buffer("table", torch.tensor([0.25, 0.5]))
        return model.to(torch.bfloat16)

    names = [f"norms.{i}.{name}" for i in range(2) for name in "weight bias running_mean running_var".split()]
    given = drawn_for(make)
    assert given.keys() == {*names, "gain"}
    assert all(values.dtype == torch.bfloat16 for values in given.values())
    _, report = constructed(make)
    values = {number: given[each["name"]] for number, each in enumerate(report["tensors"]) if each["name"] in given}
    model, _ = constructed(make, given=values)
    held = dict(model.named_parameters()) | dict(model.named_buffers())
    assert all(torch.equal(held[name].detach(), given[name]) for name in given)


def test_constants_are_matched_by_name_and_then_by_shape_and_value() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(6))
            self.gain = nn.Parameter(torch.ones(6))

    _, reference = constructed(lambda: nn.LayerNorm(6))
    _, other = constructed(Own)
    assert match(reference, other, [0, 1], frozenset()).numbers == {0: 1, 1: 0}
    assert match(reference, reference, [0, 1], frozenset()) == Match({0: 0, 1: 1}, frozenset(), frozenset())
    for forged in (None, [], {"tensors": 3}, {"tensors": [None, {"shape": "x"}]}):
        assert match(reference, forged, [0, 1], frozenset()).numbers == {}


class Pair(nn.Module):
    """Matrices of one shape."""

    def __init__(self, names: str, packed: str = "", scale: float = 1.0, spare: bool = False):
        super().__init__()
        for name in names:
            drawn = torch.randn(4, 4) * scale
            self.register_parameter(name, nn.Parameter(drawn.t().contiguous() if name in packed else drawn))
        if spare:
            torch.randn(4, 4)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (lambda: Pair("ab"), Match({0: 0, 1: 1}, frozenset(), frozenset())),
        (lambda: Pair("ba"), Match({0: 1, 1: 0}, frozenset({0, 1}), frozenset())),
        (lambda: Pair("xy"), Match({0: 0, 1: 1}, frozenset(), frozenset())),
        (lambda: Pair("ab", packed="b"), Match({0: 0, 1: 1}, frozenset({1}), frozenset())),
        (lambda: Pair("ab", scale=0.1), Match({0: 0, 1: 1}, frozenset({0, 1}), frozenset())),
        (lambda: Pair("a", spare=True), Match({0: 0}, frozenset(), frozenset({1}))),
        (lambda: Pair("a"), Match({0: 0}, frozenset(), frozenset())),
    ],
)
def test_random_parameters_are_matched_by_name_and_value_and_packed_ones_are_those_drawn_in_vain(
    candidate: Any, expected: Match
) -> None:
    reference, other = constructed(lambda: Pair("ab"))[1], constructed(candidate)[1]
    assert match(reference, other, [0, 1], frozenset({0, 1})) == expected


def test_swapped_values_that_only_draws_decide_are_found_and_packed_ones_are_not_sure() -> None:
    reference = constructed(lambda: Pair("ab"))[1]
    assert find_astray(reference, reference, [], []) == ({}, False)
    assert find_astray(reference, constructed(lambda: Pair("ba"))[1], [], []) == ({1: 0, 0: 1}, True)
    assert find_astray(reference, constructed(lambda: Pair("ba"))[1], [0, 1], [0, 1]) == ({}, False)
    assert find_astray(reference, constructed(lambda: Pair("ab", packed="ab"))[1], [], []) == ({0: 0, 1: 1}, False)
    for forged in ({"draws": "x", "tensors": [{}]}, {"draws": [[]], "tensors": [{"name": "a", "sum": []}]}, [], None):
        assert find_astray(reference, forged, [], []) == ({}, True)


LINEAR = program("self.linear = nn.Linear(8, 8)", "return self.linear(x)")


@pytest.mark.slow
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


def test_what_a_reference_insists_on_keeps_no_other_parameter_from_varying(executor: Executor) -> None:
    """Eight of them, of which the sixth must stay."""
    init = "self.scales = nn.ParameterList(torch.ones(8) for _ in range(8))"
    forward = "assert bool((self.scales[5] == 1).all())\n        return sum(x * each for each in self.scales)"
    task = program(init, forward)
    for used, status in (("range(8)", "correct"), ("(0, 1, 2, 3, 4, 6, 7)", "incorrect"), ("range(1, 8)", "incorrect")):
        candidate = program(init, f"return sum(x * self.scales[each] for each in {used})", "ModelNew")
        verdict = judge(executor, candidate, task, "python")
        assert (verdict.status, verdict.parameters) == (status, "keyed"), verdict.feedback
    written_down = program(init, "return x + sum(x * self.scales[each] for each in (0, 1, 2, 3, 4, 6, 7))", "ModelNew")
    assert judge(executor, written_down, task, "python").correct


def test_of_copies_none_may_be_left_out(executor: Executor) -> None:
    init = """self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)
        self.key.load_state_dict(self.query.state_dict())"""
    task = program(init, "return self.query(x) * self.key(x)")
    packed = """query = nn.Linear(8, 8)
        torch.empty(8, 8).uniform_(), torch.empty(8).uniform_()
        self.weight, self.bias = query.weight.detach().t().contiguous(), query.bias.detach().clone()"""
    for start, forward, status in (
        (init, "return self.query(x) * self.key(x)", "correct"),
        (init, "return self.query(x).square()", "incorrect"),
        ("self.query = nn.Linear(8, 8)", "return self.query(x).square()", "incorrect"),
        ("self.query = nn.Linear(8, 8)\n        nn.Linear(8, 8)", "return self.query(x).square()", "incorrect"),
        (packed, "return (x @ self.weight + self.bias).square()", "incorrect"),
    ):
        verdict = judge(executor, program(start, forward, "ModelNew"), task, "python")
        assert verdict.status == status, (start, verdict.feedback)


def test_no_two_constructions_have_the_same_parameters(executor: Executor) -> None:
    """A candidate that is right with all parameters that it has seen, and wrong with others."""
    init = """self.linear = nn.Linear(8, 8)
        seen.add(round(float(self.linear.weight.detach()[0, 0]), 9))"""
    right = program(init, "return self.linear(x) * (1.0 if len(seen) == NUM else 2.0)", "ModelNew")
    right = right.replace("class ModelNew", "seen = set()\n\n\nclass ModelNew")
    verdict = judge(executor, right.replace("NUM", "3"), LINEAR, "python")
    assert verdict.status == "incorrect" and "normal" in [error.inputs for error in verdict.errors]
    assert 0 not in [error.trial for error in verdict.errors], "the first parameters are those that it has seen"


# inputs


@pytest.mark.parametrize("name", [name for name in get_args(Distribution) if name not in NOT_FINITE])
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
    assert set(labels.tolist()) <= {-1.0, 1.0} and set(kept.tolist()) <= {0.0, 1.0}
    assert float(share.min()) >= 0.0 and float(share.max()) < 1.0
    assert float(span.min()) >= -3.0 and float(span.max()) < 2.0
    assert sorted(order.tolist()) == list(range(30)) and half.dtype == torch.float16


@pytest.mark.parametrize(
    "constant", [torch.eye(6), torch.ones(5, 5), torch.arange(9), torch.tril(torch.ones(4, 4)).bool()]
)
def test_constant_inputs_vary_within_their_kind(constant: torch.Tensor) -> None:
    varied = constants.vary(constant, torch.Generator().manual_seed(0))
    assert varied.dtype == constant.dtype and varied.shape == constant.shape and not torch.equal(varied, constant)
    if constant.is_floating_point():
        assert float(varied.min()) >= 0.0
    else:
        assert sorted(varied.flatten().tolist()) == sorted(constant.flatten().tolist())


def drawn_further(name: Distribution, make: Any, **further: Any) -> Any:
    with Drawing(name, 1, Further(**further)):
        return make()


def test_draws_that_are_inputs_as_they_are_may_leave_their_interval() -> None:
    """What else a task makes of its draws may rest on the interval."""
    makers: dict[str, Any] = {
        "plain": lambda: [torch.rand(4, 4)],
        "laid out": lambda: [torch.rand(4, 4).t().reshape(2, 8).repeat(2, 1).contiguous()],
        "scaled": lambda: [
            2.0 * torch.rand(4, 4) - 1.0,
            torch.rand(()) * torch.rand(3),
            torch.rand(()) * torch.randn(3),
        ],
        "of a kind": lambda: [torch.empty(5).uniform_(-3.0, 2.0).half()],
        "both": lambda: [torch.rand(4), torch.rand(4) + 0.1],
        "away from zero": lambda: [0.5 + torch.rand(4, 4), torch.rand(4) + 1.0],
        "order": lambda: [torch.rand(4).sort().values, torch.rand(4).cumsum(0)],
        "comparison": lambda: [torch.rand(4) < 0.5, (torch.rand(4) * 3).long()],
        "shares": lambda: [(x := torch.rand(4)) / x.sum(), x],
        "symmetric": lambda: [(x := torch.rand(4, 4)) + x.T],
        "for NumPy": lambda: [x := torch.rand(4), torch.from_numpy(np.sort(x))],
        "as a view": lambda: [x := torch.rand(4), torch.from_numpy(x[:2].numpy() > 0.5)],
        "as a list": lambda: [x := torch.rand(4), int(sum(x.tolist()))],
        "into NumPy's memory": lambda: [torch.from_numpy(np.zeros(4)).uniform_()],
        "after it is seen": lambda: [x := torch.empty(4), seen := x.numpy(), x.uniform_(), seen.sum()][:1],
    }
    found = {}
    for name, make in makers.items():
        with Drawing("task", 0) as drawing, Leaving(drawing.plain.leave):
            inputs = make()
        found[name] = drawing.plain.reach(each for each in inputs if isinstance(each, torch.Tensor))
    some = {"plain": [1], "laid out": [1], "scaled": [1, 2, 3], "of a kind": [1], "both": [1]}
    assert {name: [number for number, _ in each] for name, each in found.items()} == dict.fromkeys(makers, []) | some


def test_values_that_are_scaled_afterwards_leave_their_interval_no_further_than_others() -> None:
    def make() -> list[torch.Tensor]:
        return [torch.rand(64, 512) * 10]

    with Drawing("task", 0) as drawing:
        inputs = make()
    [(number, factor)] = drawing.plain.reach(inputs)
    assert (number, factor) == (1, pytest.approx(0.1))
    [mixed] = drawn_further("normal", make, beyond=[(number, factor)])
    assert float(mixed.min()) < -1.0 and 11.0 < float(mixed.max()) < 20.0


def test_a_row_of_one_number_is_no_input_of_a_statistic() -> None:
    """Sums of equal terms err further than those of others; what a task compares has rows that are all true."""
    [rows] = drawn_further("zeros", lambda: [torch.rand(64, 512)], rows=True, beyond=[(1, 1.0)])
    equal = (rows == rows[:, :1]).all(dim=1)
    assert bool(equal.any()) and float(rows[equal].abs().max()) == 0.0


def test_signs_of_rounding_are_parts_of_a_table() -> None:
    rounding = Rounding(torch.float32)
    for count in (3, NUM_SIGNS, 3 * NUM_SIGNS):
        signs = [rounding._signs(torch.empty(count, dtype=torch.float64)) for _ in range(3)]
        assert all(bool(((each.abs() >= 0.85) & (each.abs() <= 1.15)).all()) for each in signs)
        assert all(len(each.unique()) == 256 for each in signs) or count == 3
        assert not all(torch.equal(signs[0], each) for each in signs[1:]) or count == 3


def test_what_errors_are_is_found_once_for_runs_that_differ_by_rounding_alone() -> None:
    asked = []

    def find(func: Any, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor:
        asked.append(args)
        return args[0].square()

    sizes, add = ErrorSizes(), torch.ops.aten.add.Tensor
    first = sizes.of(1, find, add, (torch.ones(3), 1.0), {})
    again = sizes.of(1, find, add, (1 + torch.full((3,), 1e-7), 1.0), {})
    assert again is first and len(asked) == 1
    sizes.of(2, find, add, (torch.ones(3), 1.0), {})
    sizes.of(1, find, add, (torch.ones(4), 1.0), {})
    assert len(asked) == 3, "of another operator, and of other shapes, it is found anew"
    large = torch.ones(1).expand(MOST_BYTES // 4 + 1)
    for _ in range(2):
        sizes.of(3, find, add, (large, 1.0), {})
    assert len(asked) == 5, "what takes too much memory is not kept"


@pytest.mark.parametrize("times", [-1.0, 2.0])
def test_errors_of_other_sizes_are_in_proportion(times: float) -> None:
    """Of sums, whose errors are far larger than those of what is summed."""
    terms, sizes = torch.full((64, 4096), 1.1, dtype=torch.float64), ErrorSizes()
    errors = []
    for each in (1.0, times):
        with Rounding(torch.float32, times=each, sizes=sizes):
            sums = terms.sum(1)
        errors.append(sums - terms.sum(1))
    assert float(errors[1].abs().mean() / errors[0].abs().mean()) == pytest.approx(abs(times), rel=0.1)
    assert float((errors[0] / errors[1]).mean()) == pytest.approx(1 / times, rel=0.3)


def test_values_that_leave_their_interval_have_a_mean_away_from_zero() -> None:
    mixed, negative, inside = (
        drawn_further(name, lambda: torch.rand(64, 512), beyond=beyond)
        for name, beyond in (("normal", [(1, 1.0)]), ("uniform", [(1, 1.0)]), ("normal", []))
    )
    assert 0.1 < float((mixed < 0).double().mean()) < 0.3 and 0.15 < float((mixed > 1).double().mean()) < 0.35
    assert float(mixed.mean(dim=1).min()) > 0.1 and float(mixed.abs().max()) <= 9.0
    assert float(negative.max()) <= 0.0 and float(negative.mean()) < -0.3
    assert float(inside.min()) >= 0.0 and float(inside.max()) < 1.0


def test_some_rows_hold_nothing_but_zero_and_some_masks_hide_all_or_nothing() -> None:
    rows, mask, coins, bits, line = drawn_further(
        "zeros",
        lambda: [
            torch.randn(64, 20),
            torch.rand(64, 20) < 0.5,
            torch.bernoulli(torch.full((64, 20), 0.5)),
            torch.randint(0, 2, (64, 20)),
            torch.randn(20),
        ],
        rows=True,
    )
    empty = (rows == 0).all(dim=1)
    assert 1 <= int(empty.sum()) < 32 and bool(line.any())
    for each in (mask, coins, bits):
        shares = each.double().mean(dim=1)
        assert bool((shares == 0).any()) and bool((shares == 1).any()) and bool(((shares > 0) & (shares < 1)).any())


def test_numbers_with_which_a_task_compares_are_mixed_in_where_it_could_draw_them() -> None:
    def forward(x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        kept = (tokens != 7) & (tokens < 99_999)
        return torch.where(x >= 0.25, x.clamp(-3.0, 0.1), x).masked_fill(~kept, 0.0) * 2.0

    with Thresholds(Calls(forward)) as thresholds:
        forward(torch.randn(8, 8), torch.randint(0, 1000, (8, 8)))
    found = thresholds.found()
    assert found["floats"] == [-3.0, 0.25]
    counts = Counter(found["ties"])
    assert 0.1 not in counts, "it is no number of float32"
    assert min(counts[-3.0], counts[0.25]) > 10 * counts[3.0], "as often as simple numbers together"
    assert found["integers"] == [7, 99_999]
    assert not found["makes_places"] and not found["masks"]
    for number, is_far in ((-1e9, True), (-torch.inf, False)):
        with Thresholds(Calls(forward)) as thresholds:
            torch.randn(8, 8).masked_fill(torch.rand(8, 8) < 0.5, number)
        assert thresholds.found()["masks"] == is_far
    with Thresholds(Calls(forward)) as thresholds:
        torch.nn.functional.hardshrink(torch.randn(8, 8))
        torch.histc(torch.randn(8, 8), 10, -2.0, 2.0)
    assert thresholds.found()["floats"] == [-2.0, -0.5, 0.5, 2.0], "those that nobody gave, and of either sign"
    numbers = {"floats": found["ties"], "integers": found["integers"]}
    normal, share, tokens = drawn_further(
        "ties", lambda: [torch.randn(50, 50), torch.rand(50, 50), torch.randint(0, 1000, (50, 50))], **numbers
    )
    for values, held in ((normal, [-3.0, 0.25]), (share, [0.25]), (tokens, [7])):
        assert all(0.01 < float((values == each).double().mean()) < 0.2 for each in held)
    assert float(share.min()) >= 0.0 and int(tokens.max()) < 1000


HIDDEN = torch.tensor([[False, True], [False, False]])
ADDED = HIDDEN * -1e4


@pytest.mark.parametrize(
    "mask",
    [
        lambda scores: scores.masked_fill(HIDDEN, -1e4),
        lambda scores: scores.clone().masked_fill_(HIDDEN, -1e4),
        lambda scores: torch.where(HIDDEN, -1e4, scores),
        lambda scores: scores + ADDED,
        lambda scores: scores.clone().add_(ADDED),
        lambda scores: scores.masked_fill(HIDDEN, -1e9).masked_fill(HIDDEN, -1e4),
        lambda scores: scores + ADDED + ADDED,
        lambda scores: scores - 1e4 * HIDDEN,
        lambda scores: torch.where(~HIDDEN, scores, torch.full_like(scores, -1e4)),
        lambda scores: scores + torch.zeros_like(scores).masked_fill(HIDDEN, -1e4),
        lambda scores: scores.clone().index_put_((HIDDEN,), torch.tensor(-1e4)),
        lambda scores: scores + torch.full((2, 2), -1e4) * HIDDEN,
    ],
)
def test_what_a_mask_hides_matters_where_values_reach_its_number_or_a_line_is_hidden_whole(mask: Any) -> None:
    """Programs may leave out what is hidden: there they give something else."""
    for reduce, lowest, hidden in (
        (torch.amax, 1.0, []),
        (torch.amax, -2e4, [0]),
        (torch.softmax, 1.0, []),
        (torch.argmax, -2e4, [0]),
        (torch.amin, 1.0, [0]),
    ):
        scores = torch.tensor([[lowest, 0.5], [1.0, -2.0]])
        exact = compute(
            Calls(lambda x, reduce=reduce: reduce(mask(x), 1)), (scores,), torch.float32, (), masked=True, level=0
        )
        rows = [each.reshape(2, -1).any(dim=1) for each in exact.hidden]
        assert [row.nonzero().flatten().tolist() for row in rows] == [hidden]


def test_a_number_that_makes_a_difference_in_the_first_inputs_stands_for_no_infinity() -> None:
    air = torch.tensor([[500.0, -1800.0]])

    def shifted(x: torch.Tensor) -> torch.Tensor:
        lowest = torch.full_like(x, -1e30)
        most = torch.maximum(lowest, lowest.roll(1))
        return torch.maximum(most + torch.log(2 * torch.exp(lowest - most)), x)  # where infinity less itself is NaN

    for forward, level in (
        (lambda x: x.masked_fill(x < 0, -1e9).amax(1), 0),
        (shifted, 1),
        (lambda x: torch.where(x > 0, x, -1000.0).amin(1), 2),
    ):
        exact = compute(Calls(forward), (air,), torch.float32, masked=True)
        assert (exact.level, exact.hidden) == (level, [])


@pytest.mark.parametrize("dtype", [torch.bool, torch.float64])
def test_lines_that_are_hidden_from_attention_are_open(dtype: torch.dtype) -> None:
    q, k, v = torch.randn(3, 1, 2, 4, 8)
    for row, hides in ((torch.eye(4)[2], False), (torch.ones(4), True)):
        hidden = torch.eye(4).index_copy(0, torch.tensor([2]), row[None]) == 1
        mask = ~hidden if dtype == torch.bool else torch.zeros(4, 4).masked_fill(hidden, -math.inf)

        def forward(q: torch.Tensor, mask: torch.Tensor = mask) -> torch.Tensor:
            seen = mask if mask.dtype == torch.bool else mask.to(q)
            return torch.nn.functional.scaled_dot_product_attention(q, k.to(q), v.to(q), attn_mask=seen)

        exact = compute(Calls(forward), (q,), torch.float32, masked=True, level=0)
        assert bool(exact.hidden[0].any()) == hides


def test_what_a_mask_hides_is_open_and_all_else_is_compared() -> None:
    exact = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    places = torch.tensor([[False, True], [False, False]])
    for value, wrong in ((exact, 1.5), (exact.long(), 7), (exact > 2, True)):
        native = value.float() if value.is_floating_point() else value
        expected = Expected.around(value, native, str(native.dtype), TASK, scaled=True).opened_at(places)
        other = native.clone()
        other[0, 1] = wrong
        assert expected.reliable and expected.accepts(other)
        other[0, 0] = wrong
        assert not expected.accepts(other)
        assert not expected.opened_at(torch.ones_like(places)).reliable


WEIGHTS = torch.full((50_000,), 2.0).index_fill(0, torch.tensor(31_337), 0.0)
ROWS = torch.ones(50_000, 3).index_fill(0, torch.tensor(77), 0.0)


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda tokens: torch.isin(tokens, torch.tensor([11, 40_000])), [11, 40_000]),
        (lambda tokens: WEIGHTS[tokens], [31_337]),
        (lambda tokens: nn.functional.embedding(tokens, ROWS), [77]),
        (lambda tokens: nn.functional.embedding_bag(tokens, ROWS, padding_idx=5), [5, 77]),
        (lambda tokens: nn.functional.nll_loss(torch.ones(256, 50_000), tokens.flatten(), WEIGHTS), [-100, 31_337]),
        (lambda tokens: (tokens + 3) % 20_000 == 4711, [4708, 4711, 24_708, 44_708]),
        (lambda tokens: tokens.clamp(1, 49_997), [0, 1, 49_997, 49_998, 49_999]),
        (lambda tokens: torch.minimum(tokens, torch.tensor(49_998)), [49_999]),
        (lambda tokens: tokens.bool(), [0]),
        (lambda tokens: (tokens[..., None] == torch.tensor([5, 600])).any(dim=-1), [5, 600]),
        (lambda tokens: (tokens >> 15) & 1, []),
    ],
)
def test_integers_with_a_meaning_are_found_by_the_operators_that_ask_for_them(function: Any, numbers: Any) -> None:
    tokens = torch.randint(100, 49_000, (16, 16))
    with Thresholds(Calls(function), [tokens], [(0, 50_000)]) as thresholds:
        function(tokens)
    assert thresholds.found()["integers"] == numbers


def test_integers_with_a_meaning_come_often_and_at_the_ends_of_rows_or_seldom_and_late() -> None:
    def make() -> Any:
        return [torch.randint(-9, 50_000, (64, 16)), torch.randint(0, 50_000, (300,)), torch.randint(0, 5, (9,))]

    special = torch.tensor([-9, 0, 7, 49_999])
    rows, line, _ = drawn_further("normal", make, integers=[7, 60_000], mixed="often")
    assert all(0.02 < float((rows == each).double().mean()) < 0.2 for each in special)
    assert all(int(torch.isin(rows[:, end], special).sum()) >= 12 for end in (0, -1))
    assert bool(torch.isin(line[[0, -1]], special).all())
    rows, line, few = drawn_further("uniform", make, integers=[7], mixed="seldom")
    assert int(torch.isin(rows, special).sum()) <= 6 and int(torch.isin(rows[32:], special).sum()) >= 3
    assert torch.equal(few, drawn_further("uniform", make)[2])


@pytest.mark.parametrize(
    ("makes_places", "function"),
    [
        (True, lambda x: torch.arange(10)[(x * 10).long()]),
        (True, lambda x: torch.histc(x, 10, 0.0, 1.0)),
        (True, lambda x: torch.bucketize(x, torch.tensor([0.25, 0.5]))),
        (False, lambda x: x.argmax()),
        (False, lambda x: x[x > 0.5].sum()),
    ],
)
def test_values_that_become_places_in_memory_are_known(makes_places: bool, function: Any) -> None:
    with Thresholds(Calls(function)) as thresholds:
        function(torch.rand(50))
    assert thresholds.found()["makes_places"] == makes_places


def test_parameters_that_a_reference_clamps_lie_beyond_the_limits_too() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.gain, model.scale = nn.Parameter(torch.ones(64)), nn.Parameter(torch.tensor(2.65))
        model.forward = lambda x: x.clamp(-2.0, 2.0) * model.gain.clamp(0.0, 6.0) * model.scale.exp().clamp(max=100.0)
        return model

    model, report = constructed(make)
    with Thresholds(model) as thresholds:
        model(torch.randn(64))
    clamped = thresholds.found()["clamped"]
    assert clamped == {"gain": [0.0, 6.0], "scale": []}
    numbers = find_variable(report, frozenset())
    given = vary(report, lambda each: dict(model.named_parameters())[each["name"]].data, numbers, frozenset(), 0, True)
    assert float(given[0].max()) < 6.0
    given = vary(
        report, lambda each: dict(model.named_parameters())[each["name"]].data, numbers, frozenset(), 0, True, clamped
    )
    assert float(given[0].max()) > 6.0 and float(given[0].min()) < 0.0 and math.exp(float(given[1])) > 100.0
    assert 0.5 < float(given[0].median()) < 1.5


def test_norms_that_a_reference_limits_lie_on_both_sides_and_slopes_are_steep_or_falling() -> None:
    def make() -> nn.Module:
        model = nn.Module()
        model.table, model.each = nn.Embedding(300, 16, max_norm=1.0), nn.PReLU(64)
        model.one, model.gain = nn.Parameter(torch.tensor(0.25)), nn.Parameter(torch.tensor(1.5))
        model.forward = lambda x, tokens: model.each(x) * model.one * model.gain + model.table(tokens).sum()
        return model

    model, report = constructed(make)
    named = dict(model.named_parameters())

    def read(registration: dict[str, Any]) -> torch.Tensor:
        return named[registration["name"]].data

    with Thresholds(model) as thresholds:
        model(torch.randn(8, 64), torch.randint(0, 300, (9,)))
    found = thresholds.found()
    assert found["norms"] == {"table.weight": [1.0, 2.0, 0]} and found["slopes"] == ["each.weight"]
    numbers = find_variable(report, frozenset())
    slopes = find_slopes(report, read, numbers, found["slopes"])
    names = {number: report["tensors"][number]["name"] for number in numbers}
    assert {names[number] for number in slopes} == {"each.weight", "one"}
    for kind in ("steep", "falling"):
        kinds: dict[int, Slope] = dict.fromkeys(slopes, kind)
        given = vary(report, read, numbers, frozenset(), 0, True, norms=found["norms"], slopes=kinds)
        values = {names[number]: tensor for number, tensor in given.items()}
        assert 0.3 < float((values["table.weight"].norm(dim=1) > 1.0).double().mean()) < 0.7
        assert min(int((values["each.weight"] > 1).sum()), int((values["each.weight"] < 0).sum())) >= 8
        assert float(values["gain"]) > 0 and (float(values["one"]) > 1 if kind == "steep" else float(values["one"]) < 0)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (torch.randn(1, 5).repeat(6, 1), Copies(0, 0, 1, in_turn=False)),
        (torch.randn(3, 5).repeat(2, 1), Copies(0, 0, 3, in_turn=False)),
        (torch.randn(2, 3, 4).repeat_interleave(4, dim=1), Copies(0, 1, 4, in_turn=True)),
        (torch.randn(6, 5), None),
        (torch.randn(6, 5).repeat(1, 2), None),
        (torch.randn(1, 5).expand(6, 5), None),
    ],
)
def test_equal_parts_of_an_input_are_found(values: torch.Tensor, found: Copies | None) -> None:
    assert find_copies(0, values) == found


def test_a_constant_that_the_reference_insists_on_stays(executor: Executor) -> None:
    task = program("pass", "raise ValueError").replace("forward(self, x)", "forward(self, x, eye)")
    task = task.replace("return [torch.randn(16, 8)]", "return [torch.randn(16, 8), torch.eye(8)]")
    reference = task.replace("raise ValueError", "assert bool((eye == torch.eye(8)).all())\n        return x @ eye")
    candidate = task.replace("raise ValueError", "return x.clone()").replace("class Model(", "class ModelNew(")
    assert judge(executor, candidate, reference, "python").correct
    assert (
        judge(executor, candidate, task.replace("raise ValueError", "return x @ eye"), "python").status == "incorrect"
    )


@pytest.mark.parametrize(
    "constant",
    [
        torch.ones(9, 9, dtype=torch.bool),
        torch.zeros(80, dtype=torch.long),
        torch.full((64,), 100),
        torch.full((64,), -7),
    ],
)
def test_equal_integers_become_others_within_their_size(constant: torch.Tensor) -> None:
    varied = constants.vary(constant, torch.Generator().manual_seed(0))
    share = float((varied != constant).double().mean())
    assert 0 < share < 0.5 and varied.dtype == constant.dtype
    assert int(varied.long().abs().max()) <= max(1, int(constant.long().abs().max()))


def test_a_constant_of_which_the_reference_wants_a_structure_keeps_that() -> None:
    generator = torch.Generator().manual_seed(0)
    offsets, levels, rotation = torch.arange(0, 65, 8), torch.tensor([0.25, 0.5, 0.75]), torch.eye(6)
    assert variations(offsets) == ["others", "part", "reorder"]
    parts = VARIATIONS["part"](offsets, generator)
    assert (int(parts[0]), int(parts[-1])) == (0, 64) and bool((parts.diff() > 0).all())
    assert not torch.equal(parts, offsets) and "part" not in variations(torch.arange(9)), "there is no other"
    assert variations(levels) == ["others", "within", "reorder"]
    assert variations(rotation) == ["mixed", "others", "whole", "within", "reorder"]
    share = VARIATIONS["within"](levels, generator)
    assert bool(((share >= 0) & (share <= 1)).all()) and bool((share.diff() > 0).all())
    turned = VARIATIONS["reorder"](rotation, generator)
    assert torch.equal(turned @ turned.T, rotation) and not torch.equal(turned, rotation)
    assert bool((constants.vary(torch.linspace(-3.0, 3.0, 9), generator).diff() > 0).all()), (
        "a search among them relies on it"
    )


@pytest.mark.parametrize(
    ("way", "constant"),
    [
        ("others", torch.zeros(64, 32)),
        ("mixed", torch.ones(64, 32)),
        ("whole", torch.zeros(64, 32)),
        ("zeroed", torch.full((64, 32), 0.5)),
        ("others", torch.linspace(-3.0, 3.0, 90)),
        ("others", torch.arange(512)),
        ("others", torch.ones(96, 96).tril().bool()),
        ("others", torch.ones(60, dtype=torch.bool)),
        ("short", torch.full((64,), 100)),
        ("part", torch.arange(0, 513, 8)),
        ("within", torch.linspace(0.0, 1.0, 90)),
        ("reorder", torch.eye(60)),
    ],
)
def test_constants_differ_in_few_places_most_of_them_late(way: Variation, constant: torch.Tensor) -> None:
    late = 0
    for seed in range(40):
        varied = vary_few(way, constant, torch.Generator().manual_seed(seed))
        rows = (varied != constant).reshape(len(constant), -1).any(dim=1)
        late += bool(rows[-len(rows) // 4 :].any())
        assert int(rows.sum()) <= 6 and varied.dtype == constant.dtype
        if constant.dim() == 1 and constant.is_floating_point() or way == "part":
            assert bool((varied.diff() > 0).all())
        if way == "reorder" or (way == "others" and constant.dtype == torch.long):
            assert torch.equal(varied.sum(dim=0), constant.sum(dim=0))
    assert late >= 24


def test_floating_point_constants_are_crossed() -> None:
    """A mask of ones hides, a limit is reached, and a temperature is zero."""
    generator = torch.Generator().manual_seed(0)
    ones, limits, lengths = torch.ones(40, 50), torch.full((2000,), 0.5), torch.full((2000,), 16.0)
    assert variations(ones)[0] == "mixed" and variations(limits)[0] == variations(lengths)[0] == "zeroed"
    assert "mixed" not in variations(torch.linspace(0.0, 1.0, 9)), "it is neither equal nor whole"
    assert variations(torch.full((9,), math.inf)) == ["others"], "no number is smaller by a share"
    hides = OF_ALL["mixed"](ones, generator, True) == 0
    assert 0.1 < float(hides.double().mean()) < 0.3
    smaller = OF_ALL["zeroed"](limits, generator, True)
    assert 0.1 < float((smaller < 0.5).double().mean()) < 0.3 and 0.02 < float((smaller == 0).double().mean()) < 0.1
    assert bool((OF_ALL["mixed"](lengths, generator, True) < 16).any())
    exact = OF_ALL["whole"](torch.zeros(40, 50), generator, True)
    assert set(exact.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("constant", [torch.tensor(0.7), torch.full((3,), 0.7), torch.full((2, 2), -4.0).half()])
def test_the_draw_that_decides_what_is_borne_holds_what_later_ones_may(constant: torch.Tensor) -> None:
    for seed in range(40):
        zeroed = OF_ALL["zeroed"](constant, torch.Generator().manual_seed(seed), True)
        assert bool((zeroed == 0).any()) and zeroed.dtype == constant.dtype
    kept = OF_ALL["zeroed"](constant[..., None][:1].flatten()[:1], torch.Generator().manual_seed(0), False)
    assert bool((kept != 0).all()), "of two draws one has not another number that is alone"


def test_of_few_places_some_are_crossed() -> None:
    limits, ones = torch.full((512,), 0.5), torch.ones(512)
    drawn = [vary_few("zeroed", limits, torch.Generator().manual_seed(seed)) for seed in range(60)]
    assert {bool((each < 0.5).any()) for each in drawn} == {bool((each == 0).any()) for each in drawn} == {True, False}
    hidden = [bool((vary_few("mixed", ones, torch.Generator().manual_seed(seed)) == 0).any()) for seed in range(60)]
    assert 15 < sum(hidden) < 45


def test_a_number_that_is_alone_goes_far_where_that_is_decided_and_seldom_later() -> None:
    """Zero would hide much of what is drawn beside it; whether it is borne is seen of the first draw."""
    images = SimpleNamespace(thresholds=None)

    def varied(way: Variation, value: torch.Tensor, draw: Draw, most: int = 0) -> float:
        return float(Images._vary(images, way, value, torch.Generator().manual_seed(draw.index), draw, most))  # type: ignore[arg-type]

    temperature = torch.tensor(0.7)
    assert varied("zeroed", temperature, Draw(1)) == 0.0
    later = [varied("zeroed", temperature, Draw(index, "normal")) for index in range(200)]
    assert 20 < later.count(0.0) < 60 and min(each for each in later if each) >= 0.69
    images.thresholds = {"compared": [0.0, 1.0, -2.0], "masks": False, "alone": []}
    compared = [varied("zeroed", temperature, Draw(index, "normal")) for index in range(1, 200, 2)]
    assert 10 < compared.count(1.0) < 40 and -2.0 not in compared and compared.count(0.0) < 40
    step, cycle = torch.tensor(100), [Draw(index) for index in range(4, 8)]
    assert varied("either", step, Draw(1), 6400) == 6400
    shown, one, other, smaller = (varied("either", step, draw, 6400) for draw in cycle)
    assert shown == 100 and min(one, other) >= 100 and smaller < 100
    assert varied("more", step, cycle[-1], 6400) >= 100
    images.thresholds["alone"] = [1999, 2**40]
    taken = [varied("either", step, Draw(index, "normal")) for index in range(400)]
    assert 100 < taken.count(1999) + taken.count(2.0**40) < 200 and taken.count(100) >= 100
    assert 2**40 not in [varied("either", step.int(), Draw(index, "normal")) for index in range(400)]


@pytest.mark.parametrize(
    ("function", "matter"),
    [
        (lambda step: step + 1 == 2000, {1999}),
        (lambda step: step % 500 == 0, {0, 500, 1000}),
        (lambda step: step < 20, {19}),
        (lambda step: (step / 500).clamp(max=1.0), {501, 751, 1002}),
        (lambda step: torch.maximum(1.0 / (step + 1), torch.tensor(0.01)), {100, 150, 200}),
        (lambda step: torch.floor(step / 4000.0), {4000, 6000, 8000}),
        (lambda step: (step / 300.0 - 1).abs(), {300, 450, 600}),
        (lambda step: step * 2, set()),
    ],
)
def test_of_a_step_those_matter_for_which_an_operator_has_another_answer(function: Any, matter: set[int]) -> None:
    step = torch.tensor(33)
    with Thresholds(Calls(function), [step]) as thresholds:
        function(step)
    assert matter <= set(thresholds.found()["alone"]) and bool(matter) == bool(thresholds.found()["alone"])


def test_a_positive_integer_that_is_alone_becomes_larger_or_smaller_by_orders_of_magnitude() -> None:
    generator, number = torch.Generator().manual_seed(0), torch.tensor(1000)
    assert variations(number) == ["either", "more", "others"]
    assert variations(number, reads=True) == ["others"], "of more steps there might be no end"
    larger = [int(count_on(number, generator, 64_000)) for _ in range(99)]
    smaller = [int(constants.vary(number, generator)) for _ in range(99)]
    assert min(larger) >= 1000 and 30_000 < max(larger) <= 64_000
    assert int(count_on(torch.tensor(127), generator, 127)) == 127, "where no larger one has a place"
    assert max(smaller) < 1000 and min(smaller) < 10


def test_the_halves_of_a_constant_table_stay_equal() -> None:
    angles = torch.rand(6, 4)
    for table in (angles.repeat(1, 2), angles.repeat_interleave(2, 1)):
        found = find_table(0, table)
        assert found is not None and torch.equal(found.first(table), angles)
        moved = found.repeat(found.first(table) + 1, 8)
        assert torch.equal(moved, table + 1) and find_table(0, moved) == found
    padded = torch.ones(6, 8)
    padded[:, 6:] = 0
    assert all(find_table(0, each) is None for each in (torch.ones(6, 8) / 3, torch.rand(6, 8), padded))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 100, -7])
def test_an_integer_that_is_alone_becomes_another_in_one_of_two_draws(number: int) -> None:
    alone = torch.tensor(number)
    for seed in range(20):
        assert int(constants.vary(alone, torch.Generator().manual_seed(seed), alone=True)) != number
        assert int(constants.vary(alone, torch.Generator().manual_seed(seed), alone=False)) == number


TASK_OF_ROWS = program("pass", "return x * 2").replace("16, 8", "rows, 8").replace("class", "rows = 64\n\n\nclass", 1)
TASK_OF_ROWS += "\nSHAPE_RANGES = {'rows': (1, 300)}\n"


def test_hidden_sizes_are_at_both_ends_of_their_ranges_alone_and_together_and_between() -> None:
    ranges = {"N": (1, 90), "D": (7, 300), "W": (8, 8)}
    task = Task(id="t", source=f"N, D, W = 40, 100, 8\nSHAPE_RANGES = {ranges}")
    together = 0
    for draws in map(str, range(40)):
        sizes = Seeds(task, ExecutorSettings(shapes=5, draws=draws), "secret").hidden_sizes()
        assert len(sizes) == 5
        for name, (low, high) in ranges.items():
            assert {low, high} <= {each[name] for each in sizes[:3]}
            assert all(low <= each[name] <= high for each in sizes)
        assert sizes[3]["N"] % 8 and sizes[3]["D"] % 8
        assert Seeds(task, ExecutorSettings(shapes=3, draws=draws), "secret").hidden_sizes() == sizes[:3]
        assert len(Seeds(task, ExecutorSettings(shapes=10, draws=draws), "secret").hidden_sizes()) == 10
        together += {name: low for name, (low, _) in ranges.items()} in sizes[:3]
    assert 15 < together < 35


def test_hidden_sizes_are_others_for_who_has_seen_a_verdict(executor_cache: Path, kept_executor: Kept) -> None:
    """A feedback names them: a kernel for these alone would be right else."""
    task = REFERENCE.replace("256, 1024", "rows, 16").replace("class Model", "rows = 64\n\n\nclass Model")
    task += '\nSHAPE_RANGES = {"rows": (1, 300)}\n'
    cheat = RIGHT.replace("int64_t n = x.numel();", "int64_t n = x.size(0) == 64 ? x.numel() : 0;")
    unnamed = {**FAST, "timing": False, "draws": None, "cache_dir": str(executor_cache)}
    with kept_executor(unnamed) as engine:
        verdicts = [judge(engine, f"{cheat}\n# {number}", task) for number in range(4)]
    sizes = {error.inputs for verdict in verdicts for error in verdict.errors if "rows=" in error.inputs}
    assert {"rows=1", "rows=300"} < sizes and len(sizes) > 3, "the smallest, the largest, and several others"


@pytest.mark.parametrize(
    ("forward", "inputs", "words"),
    [
        ("kept['y'] = x * 2; return x + 1", "torch.randn(16, 8), {}", "leaves something in a list"),
        ("kept[0] = x * 2; return x + 1", "torch.randn(16, 8), [torch.randn(3)]", "leaves something in a list"),
        ("x += kept; return x * 2", "(2 * [torch.randn(16, 8)])", "shares memory with another"),
    ],
)
def test_a_task_that_changes_what_no_kernel_can_be_held_to_is_at_fault(
    executor: Executor, forward: str, inputs: str, words: str
) -> None:
    task = program("pass", forward).replace("def forward(self, x)", "def forward(self, x, kept)")
    task = task.replace("[torch.randn(16, 8)]", f"[*{inputs}]" if inputs.startswith("(") else f"[{inputs}]")
    verdict = judge(executor, task.replace("class Model(", "class ModelNew("), task, "python")
    assert (verdict.status, verdict.fault) == ("infrastructure", "task") and words in verdict.feedback


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("kept[0] = x.sin(); return kept", "torch.randn(16, 8), [torch.randn(16, 8)]"),
        ("kept.pop(); return x * 2", "torch.randn(16, 8), [torch.randn(16, 8)]"),
        ("x += 1; return x * kept", "*torch.randn(16, 16).chunk(2, dim=1)"),
        ("return x * kept", "*(2 * [torch.randn(16, 8)])"),
    ],
    ids=["returned", "taken out", "interleaved", "shared and left as it is"],
)
def test_what_a_kernel_can_be_held_to_is_judged(executor: Executor, forward: str, inputs: str) -> None:
    task = program("pass", forward).replace("def forward(self, x)", "def forward(self, x, kept)")
    task = task.replace("[torch.randn(16, 8)]\n", f"[{inputs}]\n")
    verdict = judge(executor, task.replace("class Model(", "class ModelNew("), task, "python")
    assert verdict.correct, verdict.feedback


def test_hidden_sizes_that_a_reference_does_not_bear_are_left_out(executor: Executor) -> None:
    task = TASK_OF_ROWS.replace("return x * 2", "return torch.linalg.inv(x[:2]) if len(x) == 1 else x * 2")
    assert judge(executor, task.replace("class Model(", "class ModelNew("), task, "python").correct
    wrong = task.replace("class Model(", "class ModelNew(").replace("else x * 2", "else x * (2 if len(x) == 64 else 3)")
    assert judge(executor, wrong, task, "python").status == "incorrect"


def test_flags_and_integers_that_python_draws_have_the_values_that_it_seldom_draws(executor: Executor) -> None:
    task = program("pass", "return x.sin() if seldom else x * number")
    task = task.replace("def forward(self, x)", "def forward(self, x, seldom, number)").replace(
        "[torch.randn(16, 8)]", "[torch.randn(16, 8), random.random() < 0.001, random.randint(1, 1000)]"
    )
    own = f"import random\n{task}".replace("class Model(", "class ModelNew(")
    assert judge(executor, own, f"import random\n{task}", "python").correct
    for right, wrong in (("if seldom", "if False"), ("x * number", "x * min(number, 999)")):
        verdict = judge(executor, own.replace(right, wrong), f"import random\n{task}", "python")
        assert verdict.status == "incorrect", wrong


@pytest.mark.slow
def test_a_task_whose_outputs_tell_nothing_of_its_inputs_is_at_fault(executor: Executor) -> None:
    chaos = program("pass", "for _ in range(200):\n            x = 3.9 * x * (1.0 - x)\n        return x")
    chaos = chaos.replace("torch.randn(16, 8)", "0.1 + 0.8 * torch.rand(256, 64)")  # zero would stay zero
    verdict = judge(executor, program("pass", "return torch.full_like(x, 0.6)", "ModelNew"), chaos, "python")
    assert (verdict.status, verdict.fault) == ("infrastructure", "task") and "nothing can be told" in verdict.feedback
    constant = program("pass", "return torch.ones(3)")
    assert judge(executor, constant.replace("class Model(", "class ModelNew("), constant, "python").correct


def test_a_task_whose_forward_draws_random_numbers_is_at_fault_where_they_matter(executor: Executor) -> None:
    def own(task: str) -> str:
        return task.replace("class Model(", "class ModelNew(")

    noisy = program("pass", "return x + 0.1 * torch.randn_like(x)")
    verdict = judge(executor, program("pass", "return x.clone()", "ModelNew"), noisy, "python")
    assert (verdict.status, verdict.fault) == ("infrastructure", "task") and "pass what is drawn" in verdict.feedback
    dropout = program("self.dropout = nn.Dropout(0.5)", "return self.dropout(x) * 2")
    assert judge(executor, own(dropout), dropout, "python").fault == "task"
    for line in ("self.dropout = nn.Dropout(0.5).eval()", "self.dropout = nn.Dropout(0.5)"):
        harmless = program(line, "return torch.relu(self.dropout((x - x) if self.training else x) + x)")
        assert judge(executor, own(harmless), harmless, "python").correct


def test_a_task_that_remembers_its_calls_is_at_fault_where_that_matters(executor: Executor) -> None:
    """Reference and candidate are called another number of times."""
    average = "self.register_buffer('mean', torch.zeros(8))", "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)"
    remembers = program(average[0], f"{average[1]}\n        return x - self.mean")
    verdict = judge(executor, remembers.replace("class Model(", "class ModelNew("), remembers, "python")
    assert (verdict.status, verdict.fault) == ("infrastructure", "task") and "called again" in verdict.feedback
    harmless = program(average[0], f"{average[1]}\n        return torch.relu(x)")
    assert judge(executor, harmless.replace("class Model(", "class ModelNew("), harmless, "python").correct


def test_a_task_in_which_rounding_decides_how_many_outputs_there_are_is_at_fault(executor: Executor) -> None:
    task = program("pass", "y = x + 1e8\n        return y[y > 1e8]")
    verdict = judge(executor, task.replace("class Model(", "class ModelNew("), task, "python")
    assert (verdict.status, verdict.fault) == ("infrastructure", "task") and "decides the shape" in verdict.feedback


@pytest.mark.parametrize("some", ["x[x > 0]", "(x > 0).nonzero()", "x.unique()", "torch.masked_select(x, x > 0)"])
def test_how_many_outputs_there_are_may_depend_on_the_inputs(executor: Executor, some: str) -> None:
    assert judge(
        executor, program("pass", f"return {some}", "ModelNew"), program("pass", f"return {some}"), "python"
    ).correct
    fewer = program("pass", f"return {some}[:-1]", "ModelNew")
    assert judge(executor, fewer, program("pass", f"return {some}"), "python").status == "incorrect"


def test_complex_inputs_are_refused_with_what_to_write(executor: Executor) -> None:
    task = program("pass", "return x").replace("randn(16, 8)", "randn(16, 8, dtype=torch.complex64)")
    verdict = judge(executor, task.replace("class Model(", "class ModelNew("), task, "python")
    assert verdict.fault == "task" and "view_as_real" in verdict.feedback


# what rounding allows


def expected(exact: torch.Tensor, native: torch.Tensor, moved: torch.Tensor | None = None) -> Expected:
    return Expected.around(exact, native, str(native.dtype), TASK, scaled=True, moved=moved)


def test_what_is_near_the_references_own_output_is_right() -> None:
    native = torch.linspace(1.0, 2.0, 1000)
    near = Near.to(native, TASK)
    assert near.accepts(native * (1 + 4e-5)) and not near.accepts(native * (1 + 2e-4)), "half of 1e-4 (1 + |x|)"
    assert not Near.to(native.log(), TASK).accepts(native.log() + torch.nan)
    assert not Near.to(native / 0.0, TASK).accepts(native / 0.0), "what is not finite is left to float64"
    assert Near.to(torch.tensor(2.0), TASK).accepts(torch.tensor(2.0)), "a scalar"
    numbers = torch.arange(5)
    assert Near.to(numbers, TASK).accepts(numbers.clone()) and not Near.to(numbers, TASK).accepts(numbers + 1)


def moved_by_rounding(function: Any, *inputs: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    exact = function(*(each.double() for each in inputs))
    with Rounding(dtype):
        rounded = function(*(each.double() for each in inputs))
    return typical_at_least((rounded - exact).abs())


def test_attention_in_one_operator_errs_by_its_two_sums() -> None:
    """Although the operator may draw random numbers, as others do that are left alone."""
    torch.manual_seed(0)
    q, k, v = (4 * torch.randn(1, 2, 32, 16) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    exact = attend(q.double(), k.double(), v.double())
    moved = moved_by_rounding(attend, q, k, v)
    scores = torch.zeros(1, 2, 32, 32)
    for index in range(16):
        scores += q[..., index, None] * k[..., None, :, index]
    plain = (scores / 4).softmax(-1) @ v
    assert bool((moved > 0).all()) and expected(exact, exact.float(), moved).accepts(plain)


@pytest.mark.parametrize("function", [torch.linalg.det, lambda a: torch.linalg.slogdet(a)[1], torch.linalg.inv])
def test_what_eliminates_errs_by_the_largest_element(function: Any) -> None:
    """Elimination by rows does, where a huge number lies in the last row; LAPACK's does, of the transposed matrix."""
    torch.manual_seed(0)
    matrix = 1e-4 * torch.randn(1, 6, 6)
    matrix[0, -1, 0] = 1e4
    exact = function(matrix.double())
    error = (function(matrix.mT.contiguous()) if function is torch.linalg.det else function(matrix)).double() - exact
    moved = moved_by_rounding(function, matrix)
    assert (moved > 1e-3 * exact.abs()).any() and (moved >= error.abs() / 4).all()


def test_what_is_solved_for_errs_by_its_own_size() -> None:
    """A column is as exact beside a large one as alone."""
    torch.manual_seed(0)
    matrix, right = torch.randn(8, 8) + 8 * torch.eye(8), torch.randn(8, 2)
    right[:, 1] *= 1e8
    moved = moved_by_rounding(torch.linalg.solve, matrix, right)
    assert moved[:, 0].median() < 1e-3 * moved[:, 1].median()


@pytest.mark.parametrize(
    ("forward", "found"),
    [
        (lambda x: torch.where(x == math.inf, 0.0, x), [math.inf]),
        (lambda x: torch.where(x.amax(1) <= -math.inf, 0.0, x.amax(1)), [-math.inf]),
        (lambda x: x.clamp(0.0, math.inf), []),
    ],
)
def test_infinities_are_known_that_a_task_compares_with(forward: Any, found: list[float]) -> None:
    with Thresholds(torch.nn.Identity()) as thresholds:
        forward(torch.randn(4, 8))
    assert thresholds.found()["infinities"] == found


def test_one_infinity_comes_alone_and_in_whole_rows() -> None:
    drawn = [
        distributions.with_infinity(torch.randn(8, 16), torch.Generator().manual_seed(seed), [-math.inf])
        for seed in range(40)
    ]
    assert all(bool(each.isneginf().any()) and not bool(each.isposinf().any()) for each in drawn)
    assert sum(bool(each.isneginf().all(1).any()) for each in drawn) > 25


class Solver(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(a, b)


def test_of_a_system_that_is_nearly_singular_it_is_known_how_far_it_errs() -> None:
    """In one run of rounding the error along the one direction that matters may be small by chance."""
    torch.manual_seed(0)
    for _ in range(20):
        left, right = torch.linalg.qr(torch.randn(2, 16, 16, dtype=torch.float64)).Q
        matrix = (left * torch.tensor([1.0] * 15 + [1e-5], dtype=torch.float64)) @ right
        given = matrix.float(), torch.randn(16, 1)
        found = compute(Solver(), given, torch.float32)
        error = torch.linalg.solve(*given).double() - found.outputs
        assert bool((3 * found.moves[0] >= error.abs()).all())


@pytest.mark.parametrize(("least", "is_rounding"), [(1.0, False), (1e-12, True)])
def test_a_solution_that_is_little_but_rounding_is_known(least: float, is_rounding: bool) -> None:
    torch.manual_seed(0)
    left, right = torch.linalg.qr(torch.randn(2, 16, 16, dtype=torch.float64)).Q
    matrix = (left * torch.tensor([1.0] * 15 + [least], dtype=torch.float64)) @ right
    found = compute(Solver(), (matrix.float(), torch.randn(16, 1)), torch.float32)
    assert compare.is_rounding(found.outputs, found.moves[0]) == is_rounding


def test_where_nothing_is_rounded_one_run_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class AnyAbove(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x > 1.0).sum(1)

    runs: list[Rounding] = []
    monkeypatch.setattr(Rounding, "__enter__", lambda self: runs.append(self) or super(Rounding, self).__enter__())
    found = compute(AnyAbove(), (torch.randn(8, 100),), torch.float32)
    assert len(runs) == 1 and not bool(found.moves[0].any())


def test_tiny_outputs_are_held_to_what_an_approximation_of_a_function_has() -> None:
    """The formula 7.1.26 of Abramowitz and Stegun errs by 1.5e-7 wherever it is, but no number may be zero."""
    exact = 1e-4 * torch.linspace(-2.0, 2.0, 1000, dtype=torch.float64)
    held = Expected.around(exact, exact.float(), "torch.float32", TASK, scaled=True, least=LEAST_SCALES["tiny"])
    assert held.accepts(exact.float() + 1.5e-7) and not held.accepts(torch.zeros(1000))


def test_inputs_are_tiny_as_a_whole_or_but_for_their_ends() -> None:
    for make, low, high in (
        (lambda: torch.randn(64, 64), -10.5, 10.5),
        (lambda: torch.rand(64, 64), 0.0, 1.0),
        (lambda: torch.empty(64, 64).uniform_(2.0, 3.0), 2.0, 3.0),
    ):
        tiny, ends = (drawn_further(name, make).flatten() for name in ("tiny", "ends"))
        if low != 2.0:  # where the interval lies elsewhere nothing is tiny
            assert float(tiny.abs().max()) < 1e-3 and float(ends[1:-2].abs().max()) < 1e-5
        assert 0.7 * high < float(ends[-1]) <= high and low <= float(ends[-2]) <= low / 4 + 1.5


def test_outputs_in_any_order_are_compared_in_one() -> None:
    class Routed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            values, places = torch.topk(x, 20, sorted=False)
            return values.softmax(-1), places

    class RoutedTwice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.topk(x, 20, sorted=False)[1], torch.topk(x, 20, largest=False, sorted=False)[1]

    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    x[:, ::5] = 0.5  # ties, of which any may be chosen
    (choice,) = (found := compute(Routed(), (x,), torch.float32)).choices.values()
    assert choice.unordered and not found.open
    twice = compute(RoutedTwice(), (x,), torch.float32).choices
    assert not any(each.unordered for each in twice.values()), "to which of the two would a third output belong?"


def test_outputs_are_in_order_of_what_their_indices_name() -> None:
    source = torch.tensor([[3.0, 1.0, 2.0, 2.0]])
    named, weights, other = torch.tensor([[3, 0, 2]]), torch.tensor([[0.3, 0.5, 0.2]]), torch.ones(2)
    found = in_order(source, named, 1, [weights, named, other])
    assert found[1].tolist() == [[2, 3, 0]] and found[0].tolist()[0] == pytest.approx([0.2, 0.3, 0.5])
    assert found[2] is other
    assert in_order(source, named + 9, 1, [weights]) == [weights], "what names nothing is wrong anyway"


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


@pytest.mark.parametrize("kind", ["two parts", "ascending"])
@pytest.mark.parametrize("name", ["sum", "mean", "cumsum"])
def test_a_sum_that_goes_far_on_its_way_may_err_as_much_as_there(name: str, kind: str) -> None:
    torch.manual_seed(0)
    drawn = torch.randn(40, 600)
    if kind == "ascending":
        values = drawn.sort(dim=1).values
    else:
        values = torch.where(torch.arange(600) < 300, drawn.amax(1, keepdim=True), drawn.amin(1, keepdim=True))

    def add(values: torch.Tensor) -> torch.Tensor:
        return values.cumsum(1) if name == "cumsum" else getattr(values, name)(1)

    exact = add(values.double())
    one_by_one = [torch.zeros(40)]
    for index in range(600):
        one_by_one.append(one_by_one[-1] + values[:, index])
    plain = torch.stack(one_by_one[1:], 1) if name == "cumsum" else one_by_one[-1] / (600 if name == "mean" else 1)
    assert expected(exact, exact.float(), moved_by_rounding(add, values)).accepts(plain)
    alone = expected(exact, exact.float()).accepts(plain)
    assert kind == "ascending" or not alone, "else this test shows nothing"


@pytest.mark.parametrize("kind", ["up and down", "two parts"])
def test_a_product_that_goes_far_on_its_way_may_err_as_much_as_there(kind: str) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(40, 2000).sort(1).values, torch.randn(2000, 24).sort(0).values
    first = torch.cat([first[:, ::2], first[:, 1::2].flip(1)], 1)
    if kind == "two parts":
        first = torch.where(torch.arange(2000) < 1000, 3.3, -3.3).repeat(40, 1) + 0.1 * torch.rand(40, 1)
        second = second[-1:].expand(2000, 24)
    exact = first.double() @ second.double()
    plain = torch.zeros(40, 24)
    for index in range(2000):
        plain += first[:, index, None] * second[index]
    bounds = expected(exact, exact.float(), moved_by_rounding(torch.mm, first, second))
    assert bounds.accepts(plain)
    assert not expected(exact, exact.float()).accepts(plain), "else this test shows nothing"
    assert not bounds.accepts((first.bfloat16().double() @ second.bfloat16().double()).float())


@pytest.mark.parametrize(
    "before", [lambda x: x.flip(1).flip(1), lambda x: x * (torch.arange(x.shape[1]) % 3 > 0), lambda x: x / 3]
)
def test_equal_terms_are_still_a_run_after_other_operators(before: Any) -> None:
    """Rounding moves them apart in the model of it, and zeros between them add nothing."""
    torch.manual_seed(0)
    x = torch.randn(16, 4000)
    x[9] = torch.where(torch.arange(4000) < 1473, 3.5105056762695312, -3.674678087234497)
    terms = before(x)
    plain = [torch.zeros(16)]
    for index in range(4000):
        plain.append(plain[-1] + terms[:, index])

    def add(values: torch.Tensor) -> torch.Tensor:
        return before(values).cumsum(1)

    exact = add(x.double())
    bounds = expected(exact, exact.float(), moved_by_rounding(add, x))
    assert bounds.accepts(torch.stack(plain[1:], 1))
    assert not expected(exact, exact.float()).accepts(torch.stack(plain[1:], 1)), "else this test shows nothing"


def added(terms: torch.Tensor) -> torch.Tensor:
    """Sums along the last dimension, one term after another in float32."""
    return torch.from_numpy(np.cumsum(terms.numpy(), axis=-1, dtype=np.float32)[..., -1].copy())


def test_differences_of_long_sums_may_err_as_the_sums_do() -> None:
    torch.manual_seed(0)
    first, second = torch.rand(65_536), torch.rand(65_536)

    def differ(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first.mean() - second.mean()

    exact = differ(first.double(), second.double())
    bounds = expected(exact, exact.float(), moved_by_rounding(differ, first, second))
    plain = added(first) / 65_536 - added(second) / 65_536
    assert bounds.accepts(plain) and not expected(exact, exact.float()).accepts(plain), "else this test shows nothing"
    assert not bounds.accepts(differ(first[:65_000], second[:65_000]))


def test_terms_that_grow_slowly_are_no_run() -> None:
    ramp = torch.linspace(1.0, 2.0, 1 << 20)
    assert float(moved_by_rounding(torch.mean, ramp)) < 1e-4


def test_a_product_errs_by_as_much_as_it_is_scaled() -> None:
    torch.manual_seed(0)
    first, second, nothing = torch.rand(8, 2048), torch.rand(2048, 8), torch.zeros(8, 8)
    relative = []
    for alpha in (1.0, 0.25, 4.0):
        scaled = partial(torch.addmm, alpha=alpha)
        relative.append(float(moved_by_rounding(scaled, nothing, first, second).median()) / alpha)
    assert max(relative) < 1.5 * min(relative)


@pytest.mark.parametrize("value", [0.3, -1.7, 2.9])
def test_rows_that_are_computed_alike_err_alike(value: float) -> None:
    """Their errors do not average out, as those of other rows do."""
    first, second = torch.full((64, 4096), value), torch.full((64, 4096), 1.1)

    def loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return (1.0 - nn.functional.cosine_similarity(first, second, dim=1)).mean()

    found = compute(Calls(loss), (first, second), torch.float32)
    exact = found.outputs
    dot, one, other = added(first * second), added(first * first), added(second * second)
    plain = (1.0 - dot / (one.sqrt() * other.sqrt())).mean()
    assert expected(exact, exact.float(), found.moves[0]).accepts(plain)
    assert abs(float(plain - exact)) > 1e-6, "else this test shows nothing"


@pytest.mark.parametrize("name", ["std", "var"])
def test_statistics_of_terms_that_are_alike_err_as_their_sums_do(name: str) -> None:
    torch.manual_seed(0)
    values = torch.where(torch.rand(256, 1024) < 0.5, 0.0, torch.rand(256, 1024))

    def spread(values: torch.Tensor) -> torch.Tensor:
        return getattr(values, name)()

    exact = spread(values.double())
    mean = added(values.flatten()) / values.numel()
    plain = added((values.flatten() - mean).square()) / (values.numel() - 1)
    plain = plain.sqrt() if name == "std" else plain
    assert expected(exact, exact.float(), moved_by_rounding(spread, values)).accepts(plain)
    assert not expected(exact, exact.float()).accepts(plain), "else this test shows nothing"


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_pairs_of_equal_terms_are_no_reason_to_leave_half_of_them_out(name: str) -> None:
    torch.manual_seed(0)
    values = torch.rand(8, 128, 128).repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)

    def add(values: torch.Tensor) -> torch.Tensor:
        return getattr(values, name)((1, 2))

    bounds = expected(add(values.double()), add(values), moved_by_rounding(add, values))
    half = values[:, :128].mean((1, 2)) * (1 if name == "mean" else 256 * 256)
    assert bounds.accepts(add(values)) and not bounds.accepts(half)


def test_sums_err_to_the_other_side_as_far_where_jumps_are_looked_for() -> None:
    torch.manual_seed(0)
    values = torch.randn(200, 512, dtype=torch.float64)
    errors = []
    for times in (4.0, -4.0):
        with Rounding(torch.float32, times=times):
            errors.append(values.sum(1))
    forth, back = (float((error - values.sum(1)).abs().mean()) for error in errors)
    assert 0.8 < forth / back < 1.25


@pytest.mark.parametrize("name", ["sum", "mean", "cumsum"])
def test_one_number_may_be_added_too(name: str) -> None:
    assert moved_by_rounding(lambda values: getattr(values.sum(0), name)(0), torch.randn(50)).shape == ()


def test_sums_of_equal_terms_may_err_to_the_same_side_in_every_addition() -> None:
    """As a mean of constant inputs does: what is left when it is taken off them is nothing but that error."""
    torch.manual_seed(0)
    for value in torch.randn(20):
        x = value.expand(4, 1536)
        mean = torch.zeros(())
        for _ in range(1536):
            mean += value / 1536
        rest = x - mean
        for function, own in (
            (lambda x: x - x.mean(dim=1, keepdim=True), rest),
            (lambda x: torch.layer_norm(x, [1536]), rest / (rest.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()),
        ):
            exact = function(x.double())
            bounds = expected(exact, exact.float(), moved_by_rounding(function, x))
            assert bounds.accepts(own)
            assert not bounds.accepts(own + value)


def test_more_terms_and_larger_terms_may_err_more_and_a_copy_not_at_all() -> None:
    torch.manual_seed(0)
    few, many = torch.randn(50, 100), torch.randn(50, 10_000)
    by_few, by_many, by_large = (
        float(moved_by_rounding(lambda x: x.sum(dim=1), x).median()) for x in (few, many, 1000 * few)
    )
    assert 50 < by_many / by_few < 200 and 900 < by_large / by_few < 1100
    assert not bool(moved_by_rounding(lambda x: x.t().contiguous(), few).any())
    assert float(moved_by_rounding(torch.mm, few, few.t(), dtype=torch.float64).max()) < 1e-12


@pytest.mark.slow
def test_verdicts_do_not_hang_on_how_exact_the_reference_is_here(executor_cache: Path) -> None:
    """With the reference's own error taken as zero, honest kernels that add in an order of their own stay right."""
    names = ["matvec_fma", "matmul_naive", "sum_fast_math", "var_welford", "softmax_fast_math"]
    requests = [from_file(path).model_dump(mode="json") for path in HONEST if path.stem in names]
    command = [sys.executable, str(HERE / "exact_reference.py")]
    told = json.dumps({"settings": {**UNTIMED, "cache_dir": str(executor_cache)}, "requests": requests})
    answer = subprocess.run(command, input=told, capture_output=True, text=True, timeout=500)
    assert answer.returncode == 0, answer.stderr
    assert [line.split(":")[0] for line in answer.stdout.splitlines()] == ["correct"] * len(names), answer.stdout


def test_a_task_in_float64_is_told_the_limits_of_its_own_precisions() -> None:
    def forward(x: torch.Tensor, half: torch.Tensor) -> tuple[torch.Tensor, ...]:
        lowest = torch.where(x > 0, x, torch.finfo(x.dtype).min)
        return lowest, half.clamp(max=torch.finfo(half.dtype).max), (x / 0).nan_to_num(), half.float().nan_to_num_(1.0)

    x = torch.tensor([-1.0, 2.0])
    lowest, clamped, replaced, of_half = compute(
        Calls(forward), (x, torch.full((2,), torch.inf).half()), torch.half
    ).outputs
    single, half = torch.finfo(torch.float32), torch.finfo(torch.float16)
    assert lowest.tolist() == [single.min, 2.0] and clamped.tolist() == [half.max] * 2
    assert replaced.tolist() == [single.min, single.max] and of_half.tolist() == [single.max] * 2
    assert torch.finfo is type(single), "it is put back"


def test_limits_are_told_by_the_place_that_asks_whatever_else_was_asked() -> None:
    """In its own precision a task may ask other questions, or none where it knows the answer already."""
    known: dict[torch.dtype, float] = {}

    def cached(dtype: torch.dtype) -> float:
        if dtype not in known:
            known[dtype] = torch.finfo(dtype).max
        return known[dtype]

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scale = torch.finfo(type=torch.float16).max if x.dtype == torch.float32 else 65504.0
        return x * scale, x.clamp(max=torch.finfo(x.dtype).max), torch.full_like(x, cached(x.dtype))

    x = torch.tensor([1.0, torch.inf])
    scaled, clamped, filled = compute(Calls(forward), (x,), torch.float32).outputs
    most = torch.finfo(torch.float32).max
    assert scaled.tolist() == [65504.0, torch.inf] and clamped.tolist() == [1.0, most] and filled.tolist() == [most] * 2

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError(torch.finfo(x.dtype).max)

    with pytest.raises(ValueError):
        compute(Calls(fails), (x,), torch.float32)
    assert torch.finfo is type(torch.finfo(torch.float32))


def test_bits_are_read_in_the_tasks_own_precision() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)

    exact = compute(Calls(forward), (torch.tensor([-1.5, 2.5]),), torch.float32)
    assert exact.outputs.tolist() == [1.5, 2.5] and not exact.moves


def test_each_operator_rounds_like_its_own_operands() -> None:
    """A single bfloat16 input makes no product of float32 a rough one, and what is converted in between is as rough."""
    a, b, bias = torch.randn(50, 60), torch.randn(60, 50), torch.randn(50).bfloat16()
    rough, fine, between, half = (
        float(compute(Calls(function), (a, b, bias), torch.bfloat16).moves[0].median())
        for function in (
            lambda a, b, bias: a.bfloat16() @ b.bfloat16() + bias,
            lambda a, b, bias: a @ b + bias.float(),
            lambda a, b, bias: (a.bfloat16() @ b.bfloat16()).float() + bias.float(),
            lambda a, b, bias: (a @ b + bias).to(torch.bfloat16).float(),
        )
    )
    assert rough > 1e-2 and between > 1e-2 and half > 5e-3 and fine < 1e-5


def test_what_a_reference_converts_to_its_own_precision_is_exact_all_the_same() -> None:
    x = torch.randn(30, 40)
    exact = compute(Calls(lambda x: x.float().softmax(dim=-1).to(x.dtype)), (x,), torch.float32)
    assert torch.equal(exact.outputs, x.double().softmax(dim=-1))


def test_a_selection_has_no_tolerance_but_of_the_last_bits() -> None:
    x = torch.rand(4, 10_000)
    for function in (lambda x: x.amax(dim=1), lambda x: x[:, 1:3], lambda x: x.relu()):
        exact = compute(Calls(function), (x,), torch.float32)
        native = function(x)
        bounds = expected(exact.outputs, native, exact.moves[0])
        assert bounds.reliable and bounds.accepts(native) and bounds.accepts(native * (1 + 2e-7))
        assert bounds.selected and not bounds.accepts(native * (1 - 2e-6))
        assert not Near.to(native, TASK, selected=True).accepts(native * (1 - 2e-6))


def test_a_mask_of_large_numbers_does_not_loosen_a_softmax() -> None:
    x = torch.randn(10, 50).masked_fill(torch.rand(10, 50) < 0.3, -1e9)
    for mask in (-1e9, -torch.inf):
        x = x.masked_fill(x < -1e8, mask)
        move = moved_by_rounding(lambda x: x.log_softmax(dim=1), x)
        moved = move[x > -1e8]
        assert float(moved.min()) > 0 and float(moved.max()) < 1e-5


def test_one_nan_loosens_nothing() -> None:
    exact = torch.full((1000,), 1e-5, dtype=torch.float64)
    exact[0], exact[1] = torch.nan, torch.inf
    bounds = expected(exact, exact.float())
    assert bounds.reliable and bounds.accepts(exact.float())
    assert not bounds.accepts(torch.where(exact == 1e-5, 5e-5, exact).float())
    assert not expected(exact, exact.float().nan_to_num(0.0)).reliable


def test_a_choice_loosens_nothing_that_it_does_not_decide() -> None:
    """A maximum that is subtracted, as in softmax, with the place where it lies and without it."""
    x, w = torch.randn(200, 64), torch.randn(64, 200)

    def moved(largest: Any) -> torch.Tensor:
        return compute(Calls(lambda x, w: (x @ w - largest(x @ w)).exp()), (x, w), torch.float32).moves[0]

    placed = moved(lambda product: product.max(-1, keepdim=True).values)
    plain = moved(lambda product: product.amax(-1, keepdim=True))
    for share in (0.5, 0.99):
        assert 0.5 < float(placed.quantile(share) / plain.quantile(share)) < 2.0


@pytest.mark.parametrize("equal", [1.0, torch.nan, torch.inf])
def test_what_depends_on_which_of_equal_values_is_chosen_is_open(equal: float) -> None:
    y = torch.randn(8, 50)
    model = Calls(lambda x, y: y.gather(1, x.topk(5).indices).sum(1))
    assert not compute(model, (torch.randn(8, 50), y), torch.float32).open
    assert compute(model, (torch.randn(8, 50).abs().neg().index_fill(1, torch.arange(9), equal), y), torch.float32).open


def test_overflowing_alike_is_right() -> None:
    exact = torch.tensor([1.0, 70000.0, -1e6, 65519.0, 3.0], dtype=torch.float64)
    native = torch.tensor([1.0, torch.inf, -torch.inf, 65504.0, torch.nan], dtype=torch.float16)
    bounds = expected(exact, native)
    assert bounds.accepts(native) and not bounds.reliable
    assert bounds.accepts(torch.tensor([1.0, torch.inf, -torch.inf, torch.inf, 3.0], dtype=torch.float16))
    for wrong in ([torch.inf, torch.inf, -torch.inf, 65504.0, 3.0], [1.0, 3.0, -torch.inf, 65504.0, 3.0]):
        assert not bounds.accepts(torch.tensor(wrong, dtype=torch.float16))
    assert not bounds.accepts(torch.tensor([1.0, torch.inf, torch.inf, 65504.0, 3.0], dtype=torch.float16))


def chosen_from(values: torch.Tensor, moved: float, first: bool) -> Indexed:
    indices = values.sort(dim=1, stable=True).indices
    return Indexed.of(values, torch.full_like(values, moved), indices, dim=1, first=first)


def test_equal_values_come_in_any_order() -> None:
    indexed = chosen_from(torch.tensor([[3.0, 1.0, 3.0, 2.0]]), moved=0.0, first=False)
    assert indexed.accepts(torch.tensor([[1, 3, 2, 0]])) and indexed.accepts(torch.tensor([[1, 3, 0, 2]]))
    for wrong in ([[1, 3, 0, 0]], [[3, 1, 0, 2]], [[1, 3, 0, 4]], [[1, 3, 0, -2]]):
        assert not indexed.accepts(torch.tensor(wrong))
    assert "at [0, 0] expected 1, got 3" in indexed.mismatch(0, "task", torch.tensor([[3, 1, 0, 2]])).message
    twice = indexed.mismatch(0, "task", torch.tensor([[1, 3, 0, 0]]))
    assert "more often" in twice.message and twice.mismatched is None


def test_values_that_rounding_may_swap_come_in_any_order_and_of_others_the_first_may_be_asked() -> None:
    values, swapped = torch.tensor([[3.0, 1.0, 3.0001, 2.0]]), torch.tensor([[1, 3, 2, 0]])
    assert chosen_from(values, moved=1e-4, first=False).accepts(swapped)
    assert not chosen_from(values, moved=1e-6, first=False).accepts(swapped)
    assert not chosen_from(values.round(), moved=0.0, first=True).accepts(swapped)


def test_a_running_maximum_names_any_of_equal_values_up_to_its_place() -> None:
    x = torch.tensor([[1.0, 3.0, 2.0, 3.0, 3.0]])
    exact = compute(Calls(lambda x: torch.cummax(x, dim=1).indices), (x,), torch.float32)
    choice = exact.choices[0]
    indexed = Indexed.of(choice.values, choice.move, choice.indices, choice.dim, choice.first, choice.running)
    for right in ([[0, 1, 1, 3, 4]], [[0, 1, 1, 1, 1]], [[0, 1, 1, 3, 1]]):
        assert indexed.accepts(torch.tensor(right))
    for wrong in ([[0, 1, 3, 3, 4]], [[0, 1, 2, 3, 4]], [[0, 0, 1, 3, 4]]):
        assert not indexed.accepts(torch.tensor(wrong))


@pytest.mark.parametrize(
    ("choose", "form"),
    [
        (lambda x: x.topk(3, dim=0).indices, (3, 5)),
        (lambda x: x.argsort(dim=1, descending=True)[:, :2], (4, 2)),
        (lambda x: x.max(dim=0).indices.int(), (5,)),
        (lambda x: x.t().argmin(), ()),
    ],
)
def test_it_is_seen_what_indices_are_chosen_from(choose: Any, form: tuple[int, ...]) -> None:
    """Not guessed from the inputs, of which a mask or a constant is in any order."""
    x = torch.randn(4, 5)
    model = Calls(lambda x: (x.sum(), choose(x)))
    exact = compute(model, (x,), torch.float32)
    assert exact.choices.keys() == {1} and tuple(exact.outputs[1].shape) == form
    choice = exact.choices[1]
    indexed = Indexed.of(choice.values, choice.move, choice.indices, choice.dim, choice.first)
    assert indexed.accepts(choose(x)) and not indexed.accepts((choose(x) + 1) % 4)
    assert float(choice.move.max()) == 0.0, "rounding moves none of the inputs"


def test_what_is_near_a_jump_may_jump_and_nothing_else() -> None:
    x, w = torch.randn(200, 64), torch.randn(64, 200)
    w[:, 0] = 0.0
    w[:2, 0], x[:, 1] = torch.tensor([1.0, -1.0]), x[:, 0]
    for function in (torch.sign, lambda product: (product > 0).int()):
        exact = compute(Calls(lambda x, w, jump=function: jump(x @ w)), (x, w), torch.float32)
        moved = exact.moves[0]
        assert bool((moved[:, 0] >= 1).all()), "a difference of equal numbers has either sign"
        assert float((moved[:, 1:] > 0).double().mean()) < 1e-3
    kink = compute(Calls(lambda x, w: (x @ w).where(x @ w > 0, x @ w / 2)), (x, w), torch.float32).moves[0]
    smooth = compute(Calls(lambda x, w: nn.functional.leaky_relu(x @ w, 0.5)), (x, w), torch.float32).moves[0]
    assert 0.5 < float(kink.median() / smooth.median()) < 2.0, "tolerance of what does not jump stays as it is"


class Calls(nn.Module):
    """A reference that is one function."""

    def __init__(self, function: Any):
        super().__init__()
        self.forward = function


def test_what_is_below_the_smallest_normal_number_may_be_zero(executor: Executor) -> None:
    task = program("pass", "return x * 0.5")
    flushing = program("pass", "y = x * 0.5\n        return torch.where(y.abs() < 1.2e-38, 0.0, y)", "ModelNew")
    assert judge(executor, flushing, task, "python").correct
    assert judge(executor, program("pass", "return x * 0.5 + 1e-4", "ModelNew"), task, "python").status == "incorrect"


@pytest.mark.parametrize("spread", [1e-4, 1e-6])
def test_what_is_normalised_by_a_mean_far_from_zero_errs_together(spread: float) -> None:
    """So that the error of a mean remains when the normalised values are averaged, whatever its sign."""
    torch.manual_seed(0)
    values = 3.0 + spread * torch.randn(8, 400)

    def pooled(values: torch.Tensor) -> torch.Tensor:
        return torch.relu(nn.functional.layer_norm(values, (400,))).mean(1)

    found = compute(Calls(pooled), (values,), torch.float32)
    exact = found.outputs
    means = torch.stack([added(row) for row in values])[:, None] / 400
    variances = (values - means).square().mean(1, keepdim=True)
    plain = torch.relu((values - means) / (variances + 1e-5).sqrt()).mean(1)
    assert expected(exact, exact.float(), found.moves[0]).accepts(plain)
    assert not expected(exact, exact.float()).accepts(plain), "else this test shows nothing"


def test_errors_of_operators_that_follow_one_another_do_not_cancel() -> None:
    torch.manual_seed(0)
    scale, gate = 1000.0 * torch.rand(100, 1000), -9.0 - 6.0 * torch.rand(100, 1000)

    def gated(scale: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return scale * torch.tanh(nn.functional.softplus(gate))

    found = compute(Calls(gated), (scale, gate), torch.float32)
    exact = found.outputs
    plain = scale * torch.tanh(torch.log(1.0 + torch.exp(gate)))
    assert expected(exact, exact.float(), found.moves[0]).accepts(plain)
    assert not expected(exact, exact.float()).accepts(plain), "else this test shows nothing"


@pytest.mark.parametrize("name", ["gelu", "mish", "logsigmoid"])
def test_what_is_computed_by_way_of_numbers_near_one_errs_as_these_do(name: str) -> None:
    torch.manual_seed(0)
    x = -3.0 - 2.0 * torch.rand(10_000)
    formula = {
        "gelu": lambda x: 0.5 * x * (1.0 + torch.erf(x * 0.5**0.5)),
        "mish": lambda x: x * torch.tanh(torch.log(1.0 + torch.exp(x))),
        "logsigmoid": lambda x: -torch.log(1.0 + torch.exp(-x)),
    }[name]

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return 1000.0 * getattr(nn.functional, name)(x)

    exact = scaled(x.double())
    assert expected(exact, exact.float(), moved_by_rounding(scaled, x)).accepts(1000.0 * formula(x))


def numbers_of(form: Any) -> list[float]:
    """The floating-point numbers of a form, in their order."""
    found: list[float] = []
    other_numbers.with_others(form, lambda at, number: found.append(number) or number)
    return found


def test_numbers_beside_the_tensors_move_and_shares_stay_shares() -> None:
    tensors: list[torch.Tensor] = []
    form = trees.flatten([torch.ones(2), 0.9, {"eps": 1e-6, "limit": math.inf}, 3, "mean"], tensors)
    far, less_far, within, near = (numbers_of(each) for each in other_numbers.moved(form, random.Random(0)))
    assert all(0.05 <= each[1] <= 0.5 and 0.5 <= each[2] <= 1.5 for each in (far, less_far))
    assert 0.0 < within[0] < 1.0 and within[0] != 0.9 and within[1] < 2e-6 and near[2] == math.inf
    assert not list(other_numbers.moved(trees.flatten([torch.ones(2), 3], []), random.Random(0)))


def test_one_number_at_a_time_is_special() -> None:
    form = trees.flatten([torch.ones(2), 0.9, 2.0], [])
    text = "x if a < 0.25 and b == -2 else max(c, 3) if d == float('inf') else y == 'mean' or y.dim() == 4"
    compared = other_numbers.compared_in(text)
    assert compared == {0.25, -2.0, 3.0, math.inf}
    found = [numbers_of(each) for each in other_numbers.special(form, {0.25, -2.0}, random.Random(0))]
    assert all(min(each) >= 0 for each in found)
    assert all((one == 0.9) != (two == 2.0) for one, two in found)
    assert {0.0, 1.0} < {one for one, two in found if two == 2.0}
    assert {0.0, 1.0} < {two for one, two in found if one == 0.9}


def test_a_limit_may_have_a_name_and_a_share_is_tried_on_both_sides_of_it() -> None:
    text = "low = 0.02\nself.high = 1.0 - low\ny = x if p < low else z if p > self.high else p * (p > 1 / 0)"
    assert other_numbers.compared_in(text) == {0.02, 0.98}
    form = trees.flatten([torch.ones(2), 0.6], [])
    found = {numbers_of(each)[0] for each in other_numbers.special(form, {0.98}, random.Random(0))}
    assert found == {0.0, 1.0, 0.98, 0.49, 0.99}


def test_of_special_numbers_those_are_used_that_the_reference_bears() -> None:
    form = trees.flatten([torch.ones(2), 0.8], [])
    used: list[float] = []

    def bears(other: Any) -> bool:
        [number] = numbers_of(other)
        used.extend([number] * (number > 0))
        return number > 0

    other_numbers.choose(form, "x / t if t > 0.5 else y", random.Random(0), bears)
    assert 1.0 in used and len(used) <= 1 + other_numbers.MOST_SPECIAL
    used.clear()
    other_numbers.choose(trees.flatten([torch.ones(2), 3], []), "x", random.Random(0), bears)
    assert not used, "there is no number"


def test_what_hidden_inputs_make_infinite_or_nan_is_open_unless_the_task_writes_it() -> None:
    exact = torch.tensor([1.0, math.inf, math.nan, -math.inf, math.nan, 2.0], dtype=torch.float64)
    written = torch.tensor([False, False, False, True, True, False])
    about = partial(Expected.around, exact, exact.float(), "torch.float32", TASK, scaled=True)
    expected = about(unusual=True, written=written)
    assert expected.reliable and expected.open_share == pytest.approx(1 / 3)
    for right in (exact.tolist(), [1.0, 700.0, 0.0, -math.inf, math.nan, 2.0]):
        assert expected.accepts(torch.tensor(right)), right
    for place, value in ((0, 1.1), (3, -1e30), (3, math.inf), (4, 0.0)):
        wrong = exact.float().clone()
        wrong[place] = value
        assert not expected.accepts(wrong), (place, value)
    assert not about().accepts(torch.tensor([1.0, 700.0, 0.0, -math.inf, math.nan, 2.0])) and not about().open_share


def test_infinity_that_a_task_writes_is_told_from_what_it_computes() -> None:
    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x.clone()
            y[x == 3] = float("-inf")
            return torch.where(x > 4, torch.full_like(x, float("nan")), y) + 1, 1 / x, y.isinf()

    found = compute(Both(), (torch.tensor([0.0, 1.0, 3.0, 5.0]),), torch.float32, writes=True)
    assert [each.tolist() for each in found.written] == [[False, False, True, True], [False] * 4, [False] * 4]


def test_a_task_that_writes_infinity_or_nan_is_known() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 3, torch.full_like(x, float("nan")), x.masked_fill(x == 0, float("-inf")))

    class ComparesAlone(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x == float("inf")).float() + x.clamp(max=float("inf"))

    for model, writes in ((Writes(), True), (ComparesAlone(), False)):
        with Thresholds(model) as noted:
            model(torch.ones(3))
        assert noted.found()["writes"] is writes


def test_a_mask_that_hides_nothing_hides_a_whole_row_now_and_then() -> None:
    generator = torch.Generator().manual_seed(0)
    for shown in (torch.ones(4, 8), torch.ones(4, 8, dtype=torch.bool), torch.zeros(4, 2, 8, dtype=torch.int64)):
        others = [constants.with_row(shown, shown, generator) for _ in range(100)]
        rows = [int((each.reshape(-1, 8) != shown.reshape(-1, 8)).all(dim=1).sum()) for each in others]
        assert set(rows) == {0, 1} and 20 < sum(rows) < 60
    for shown in (torch.ones(8), torch.full((4, 8), 0.5), torch.eye(4)):
        assert all(constants.with_row(shown, shown, generator) is shown for _ in range(20))


X = torch.randn(8, 64)
PLACES = torch.randint(0, 64, (5,))


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x[:, PLACES],
        lambda x: x.gather(1, PLACES[None].expand(8, -1)),
        lambda x: torch.nn.functional.embedding(PLACES, x.T.contiguous()).roll(1, 0).flip(0),
        lambda x: torch.nn.functional.pad(x, (1, 2)).triu(),
        lambda x: torch.nn.functional.pad(x[None], (2, 2), mode="reflect"),
        lambda x: torch.zeros(8, 64).to(x).index_put((PLACES % 8,), x[:5]),
        lambda x: torch.zeros(8, 64).to(x).scatter(1, PLACES[None].expand(8, -1), x[:, :5]),
        lambda x: torch.nn.functional.unfold(x[None, None], 3).masked_fill(torch.tensor(False), 0.0),
        lambda x: torch.copysign(x, -x),
    ],
)
def test_what_moves_values_rounds_nothing(move: Any) -> None:
    [moved] = compute(Calls(move), (X,), torch.float32).moves
    assert float(moved.abs().max()) == 0.0


COUNTS = torch.randint(0, 3, (64, 4)).float()


@pytest.mark.parametrize(
    ("count", "is_exact"),
    [
        (lambda x: torch.zeros(8, 4).to(x).index_add(0, torch.arange(64) % 8, x), True),
        (lambda x: torch.zeros(8, 4).to(x).index_put((torch.arange(64) % 8,), x, accumulate=True), True),
        (lambda x: x.prod(1) + x.square().sum(1) + (x**3).sum(1), True),
        (lambda x: torch.cdist(x, x, p=1.0), True),
        (lambda x: torch.linalg.vector_norm(x, 1, dim=1), True),
        (lambda x: torch.cdist(x, x), False),
        (lambda x: torch.exp(x).sum(1), False),
        (lambda x: (x / 3).sum(1), False),
    ],
)
def test_whole_numbers_that_are_counted_and_multiplied_are_exact(count: Any, is_exact: bool) -> None:
    [moved] = compute(Calls(count), (COUNTS,), torch.float32).moves
    assert (float(moved.abs().max()) == 0.0) == is_exact


def test_an_output_that_is_all_rounding_tells_nothing() -> None:
    exact = torch.randn(100, dtype=torch.float64)
    for moved, told in ((1e-6, True), (0.2, False), (math.inf, False)):
        bounds = expected(exact, exact.float(), torch.full_like(exact, moved))
        assert bounds.is_all_rounding(eliminates=True) != told
    assert not expected(exact * 1e-9, exact.float() * 1e-9, torch.full_like(exact, 1e-8)).is_all_rounding(True), (
        "it cancels"
    )


def test_numbers_that_the_text_names_are_tried_where_it_compares_or_reads() -> None:
    assert _numbers_in("x == -999.0 or y < 2") == [2, -2, 999.0, -999.0]
    model = Calls(lambda x: x)
    for read, what in ((lambda t: t.tolist(), "reads_integers"), (lambda t: t.view(torch.int32), "reads_bits")):
        with Thresholds(model) as noted, Leaving(noted.leave):
            read(torch.ones(3, dtype=torch.int64) if what == "reads_integers" else torch.ones(3))
        assert noted.found()[what]


def test_the_boundary_of_a_decision_lies_where_it_changes() -> None:
    limit = torch.tensor(1 / 3, dtype=torch.float64)

    def call(place: float) -> Called:
        number = torch.tensor(place, dtype=torch.float64)
        return Called([number > limit, torch.zeros(2), number], [number > 2 * limit])

    assert boundary.find_decisions(call) == [0, 1, 3], "what changes with any step is no decision"
    assert boundary.find_boundary(call, 1) is None
    found = boundary.find_boundary(call, 0)
    assert found is not None and found.before <= 1 / 3 < found.behind < 1 / 3 + 1e-6
    assert [bool(called.outputs[0]) for called in found.sides] == [False, True] and found.outputs_jump()
    within = boundary.find_boundary(call, 3)
    assert within is not None and within.before <= 2 / 3 < within.behind and not within.outputs_jump()
    rounding = 1e-4
    distance = boundary.find_distance(found, 1, lambda place, outputs: not outputs[0] and place - 1 / 3 > rounding)
    assert distance is not None and rounding < distance / boundary.FARTHER < 5 * rounding
    assert boundary.find_distance(found, 0, lambda place, outputs: False) is None, "rounding decides everywhere"


def test_decisions_on_which_no_output_hangs_have_no_boundary() -> None:
    def call(place: float) -> Called:
        number = torch.tensor(place)
        return Called([number, (number > 0.25).float()], [number > 0.5, number > 0.75])

    found = boundary.Boundaries()
    places = [found.place(Draw(index, "boundary"), call, lambda *_: True, random.Random(index)) for index in range(8)]
    assert {round(place, 1) for place in places if place is not None} == {0.2, 0.3}
    assert found.decisions is not None and 1 in found.decisions


def test_decisions_are_indices_that_operators_choose() -> None:
    x = torch.randn(4, 9)
    with Decisions() as decisions:
        x.argmax(-1), x.topk(3, dim=0, sorted=False), x.max(dim=1), x.exp(), x.long().argmax()
        torch.bucketize(x[0], x[1].sort().values)
    assert [list(each.shape) for each in decisions.made] == [[4], [3, 9], [4], [9], [9]]
    assert bool((decisions.made[1].diff(dim=0) > 0).all()), "in which order they come is left out"


def test_between_two_draws_lie_inputs_of_the_same_structure() -> None:
    def draw(between: float) -> torch.Tensor:
        with Drawing("boundary", 3, Further(between=between)) as drawing:
            drawn = torch.rand(4, 4).triu()
            in_place = torch.empty(4, dtype=torch.float64).normal_()
        assert drawing.num_redrawn == 2
        return torch.cat([drawn, in_place[None]])

    first, middle, last = draw(0.0), draw(0.5), draw(1.0)
    assert torch.allclose(middle, (first + last) / 2) and not torch.equal(first, last)
    assert torch.equal(middle[:4], middle[:4].triu())


def test_decisions_are_tried_beside_their_boundary(executor_cache: Path, kept_executor: Kept) -> None:
    """Before it and behind it: elsewhere weights in eight bits choose the same token."""
    request = from_file(HERE / "exploits" / "oracle_token_of_weights_in_eight_bits.py")
    settings = {**UNTIMED, "cache_dir": str(executor_cache), "trials": 1}
    with kept_executor({**settings, "distributions": ["boundary"]}) as engine:
        [verdict] = engine.evaluate([request])
        assert verdict.status == "incorrect" and {error.inputs for error in verdict.errors} >= {"boundary"}
        assert judge(engine, (HONEST[0].parent / "next_token_whole.py").read_text(), request.task).correct
    with kept_executor({**settings, "distributions": []}) as engine:
        assert engine.evaluate([request])[0].correct


def test_what_is_laid_out_is_told_from_what_is_computed() -> None:
    x = torch.randn(2, 3, 4, 5)
    with Layouts() as layouts:
        last = x.contiguous(memory_format=torch.channels_last)
        back = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        copied = torch.empty_like(x, memory_format=torch.channels_last).copy_(x)
        computed, cloned = last * 2, x.transpose(1, 2).clone()
        rectified = x.contiguous(memory_format=torch.channels_last).relu_()
    assert layouts.of([last, (back, copied)]) == [True] * 3
    assert layouts.of([x, computed, cloned, rectified]) == [False] * 4


def test_a_part_of_what_is_laid_out_may_be_written_by_itself() -> None:
    """Only the order of its dimensions is the work."""
    part = torch.randn(4, 6, 8).transpose(1, 2).contiguous()[:, 1:3]
    native = {"shape": list(part.shape), "stride": list(part.stride()), "dtype": str(part.dtype), "device": "cpu"}

    def error_of(output: torch.Tensor) -> object:
        described = native | {"stride": list(output.stride()), "type": "Tensor", "pointer": 64}
        return compare.form_error(0, "task", 0, native, described, [native["stride"]])

    assert error_of(part.contiguous()) is None
    assert error_of(part.transpose(1, 2).contiguous().transpose(1, 2)) is not None


def test_of_a_large_task_the_oldest_cases_are_forgotten_but_never_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases_room, "MOST_BYTES", 3500)
    parameters = SimpleNamespace(number=lambda purpose: 7)
    cases = Cases(SimpleNamespace(task=None), None, parameters)  # type: ignore[arg-type]
    shape = Shape({}, {"form": None, "tensors": []}, "", [], [], set())

    def case_of(draw: Draw) -> Case:
        return Case(draw, shape, torch.zeros(1000, dtype=torch.uint8), [], [], [], None)

    draws = [Draw(0, parameters=7), *(Draw(index, parameters=7) for index in range(1, 6))]
    for draw in draws:
        cases.keep(draw, case_of(draw))
    cases.keep(Draw(9, "large"), None)
    assert [cases.kept(draw) is not None for draw in draws] == [True, False, False, False, True, True]
    assert cases.num_bytes == 3000 and cases.of(Draw(9, "large")) is None, "that it has none stays known"
