"""Inputs that are typical but for something rare, which a kernel that looks at some numbers first does not see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from conftest import REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge
from kernelrl.executor import Executor
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import distributions, rare
from kernelrl.executor.contest.distributions import RARE
from kernelrl.executor.contest.drawing import Drawing, Further

SEEDS = range(60)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: Distribution, draw: Callable[[], torch.Tensor], further: Further | None = None) -> list[torch.Tensor]:
    found = []
    for seed in SEEDS:
        with Drawing(name, seed, further):
            found.append(draw())
    return found


@pytest.mark.parametrize("name", RARE)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (16, 16), (3, 1, 5), (2, 3, 8, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_most_of_a_draw_is_as_it_was(name: Distribution, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for seed in SEEDS:
        before = torch.randn(shape, generator=generator(seed)).to(dtype)
        after = distributions.redraw(name, before, generator(seed))
        assert after is not None and after.shape == before.shape and after.dtype == dtype
        assert bool(after.isfinite().all())
        if before.numel() > 200:
            stays = float((after == before).double().mean())
            assert stays > 0.6 or (len(shape) > 2 and stays >= 0.5), "one of two samples may be another"


def test_a_spike_may_be_anywhere_and_is_alone_in_half_of_the_draws() -> None:
    places, alone = set[int](), 0
    for values in drawn("spike", lambda: torch.randn(16, 64)):
        far = (values.abs() > 10).flatten().nonzero().flatten()
        alone += len(far) == 1
        places.update((far // 256).tolist())
    assert places == {0, 1, 2, 3} and 15 < alone < 45


def test_what_is_rare_stays_in_the_interval_of_its_draw_unless_that_may_be_left() -> None:
    for name in RARE:
        assert all(
            float(values.min()) >= 0 and float(values.max()) < 1 for values in drawn(name, lambda: torch.rand(9, 9))
        )
    outside = drawn("spike", lambda: torch.rand(9, 9), Further(beyond=[(1, 1.0)]))
    assert all(bool(((values < 0) | (values >= 1)).any()) for values in outside)
    assert all(float(values.min()) >= 0 for values in drawn("spike", lambda: torch.empty(9, 9).exponential_()))


def test_what_is_rare_is_not_finite_where_the_task_says_what_becomes_of_that() -> None:
    for draw in (lambda: torch.randn(9, 9), lambda: torch.rand(9, 9)):
        found = drawn("spike", draw, Further(not_finite=True, beyond=[(1, 1.0)]))
        assert sum(bool(values.isnan().any()) for values in found) > 3
        assert sum(bool(values.isinf().any()) for values in found) > 6
        assert all(float(values.isfinite().double().mean()) > 0.9 for values in found)


def test_rows_of_coins_and_integers_may_be_even() -> None:
    for draw in (lambda: torch.rand(8, 32).bernoulli_(0.5), lambda: torch.randint(9, (8, 32))):
        assert any(bool((values == values[:, :1]).all(dim=1).any()) for values in drawn("rows", draw))


def test_several_rows_are_each_of_another_kind_and_a_whole_sample_may_be() -> None:
    found = drawn("rows", lambda: torch.randn(64, 32))
    both = 0
    for values in found:
        even, zero = (values == values[:, :1]).all(dim=1), (values == 0).all(dim=1)
        both += bool((even & ~zero).any() and zero.any())
    assert both > 5
    samples = (values.flatten(1) for values in drawn("rows", lambda: torch.randn(8, 3, 4)))
    assert any(bool((each == each[:, :1]).all(dim=1).any()) for each in samples)


def test_rows_of_one_number_have_all_forms_with_and_without_another_element() -> None:
    """A row of zeros, one that is zero but for one element, and the same of its smallest, largest and first number."""
    integers = drawn("rows", lambda: torch.randint(-7, 8, (64, 32)))
    num_zero = [(values == 0).sum(dim=1) for values in integers]
    assert any(bool((each == 32).any()) for each in num_zero) and any(bool((each == 31).any()) for each in num_zero)
    largest = [int((values == 7).sum(dim=1).max()) for values in integers]
    assert {31, 32} <= set(largest)


def test_a_quarter_of_a_matrix_is_zero_with_all_its_tiles() -> None:
    for name in ("rows", "grains"):
        found = drawn(name, lambda: torch.randn(3, 32, 48))
        tiles = [values.view(3, 4, 8, 6, 8).abs().amax(dim=(2, 4)) == 0 for values in found]
        assert any(int(each.sum()) in (2 * 3, 3 * 2 * 3) for each in tiles), name


def test_one_element_alone_decides() -> None:
    values = torch.randn(4, 128, generator=generator(0))
    for seed in SEEDS:
        even = rare.single(values, generator(seed))
        assert int((even == even.mode().values.mode().values).sum()) >= even.numel() - 1


def test_rows_along_any_dimension_are_in_an_order_but_for_a_pair() -> None:
    found = set[str]()
    for values in drawn("ordered", lambda: torch.randn(40, 41)):
        for dim in (0, 1):
            rises = (values.diff(dim=dim) > 0).double().mean(dim=dim)
            of_rows = {"descends": rises < 0.05, "goes both ways": (rises - 0.5).abs() < 0.05, "ascends": rises > 0.95}
            if float(sum(are_so.double().mean() for are_so in of_rows.values())) > 0.95:
                found |= {f"{name} {dim}" for name, are_so in of_rows.items() if bool(are_so.any())}
    assert len(found) == 6
    assert all(sorted(order.tolist()) == [*range(50)] for order in drawn("ordered", lambda: torch.randperm(50)))
    assert any(torch.equal(order[:10], torch.arange(10)) for order in drawn("ordered", lambda: torch.randperm(50)))


@pytest.mark.parametrize("dim", [0, 1])
def test_coins_are_all_alike_along_either_dimension(dim: int) -> None:
    found = drawn("rows", lambda: torch.empty(40, 41).bernoulli_(0.5))
    for side in (0, 1):
        assert any(bool((values == side).all(dim=dim).any()) for values in found)


def test_an_integer_is_absent_or_fills_half_of_the_places() -> None:
    counts = [values.bincount(minlength=8) for values in drawn("spike", lambda: torch.randint(8, (1000,)))]
    assert any(int(count.min()) == 0 for count in counts) and any(int(count.max()) > 400 for count in counts)


@pytest.mark.parametrize("name", ["nan", "infinite"])
def test_what_is_not_finite_is_alone_in_a_stretch_or_anywhere(name: Distribution) -> None:
    numbers = [~values.isfinite() for values in drawn(name, lambda: torch.randn(16, 64))]
    assert any(int(each.sum()) <= 2 for each in numbers) and any(int(each.sum()) > 20 for each in numbers)
    assert any(bool(each.all(dim=dim).any()) for each in numbers for dim in (0, 1))
    assert any(bool((each.sum(dim=1) == 63).any()) for each in numbers), "of a row one element is left"


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**FAST, "cache_dir": str(executor_cache)}) as engine:
        yield engine


def test_trials_hold_something_rare_where_the_reference_bears_it(executor: Executor) -> None:
    wrong = RIGHT.replace("2.0f * a[i]", "3.0f * a[i]")
    inputs = {error.inputs for error in judge(executor, wrong).errors}
    assert {"task", *RARE} <= inputs
    largest = "torch.relu(x) * torch.exp((x * x).amax())"  # overflows throughout by one that is far larger
    largest = REFERENCE.replace("torch.relu(x) * 2.0", largest)
    inputs = {error.inputs for error in judge(executor, wrong, largest).errors}
    assert {"task", "grains"} <= inputs and "spike" not in inputs
    overflowing = REFERENCE.replace("torch.relu(x) * 2.0", "torch.exp(x * x)")
    inputs = {error.inputs for error in judge(executor, wrong, overflowing).errors}
    assert {"task", "grains", "spike"} <= inputs, "few that are infinite hide nothing of the others"


@pytest.mark.parametrize("shape", [(), (9,), (32, 4), (3, 8, 8)])
def test_some_rows_of_integers_hold_a_number_that_matters_alone(shape: tuple[int, ...]) -> None:
    even = set[int]()
    for seed in SEEDS:
        before = torch.randint(10, 500, shape, generator=generator(seed))
        after = rare.rows_of(before, [2], [0, 499], generator(seed))
        assert after.shape == before.shape and after.dtype == before.dtype
        rows = after.reshape(-1, shape[-1] if shape else 1)
        even |= {int(row[0]) for row in rows if bool((row == row[0]).all())}
    assert 2 in even and (len(shape) < 2 or {0, 499} <= even)
