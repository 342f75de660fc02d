"""The time below which no program can do a task: what must be read, written and multiplied, and how fast that goes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from conftest import KERNELS, REFERENCE
from executor_cases import FAST, PATIENCE_S, judge
from kernelrl.errors import InfrastructureError
from kernelrl.executor import make_executor
from kernelrl.executor.contest.demand import CHANCE, product_flops, read_bytes, sure_share
from kernelrl.executor.judging.bound import MARGIN, SIZES, STRASSEN, Bounds, Peaks, measure_peaks, too_fast
from kernelrl.executor.judging.demand import Demand
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.helpers import compiled_helper


class Of(nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def read(function: Any, make: Any) -> int:
    def draw(seed: int) -> tuple[Any, ...]:
        torch.manual_seed(seed)
        return make()

    return read_bytes(Of(function), draw, [1, 2, 3], False, PATIENCE_S)


def one(rows: int = 64) -> tuple[torch.Tensor]:
    return (torch.randn(rows, 64),)


def two() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(64, 64), torch.randn(64, 64)


ALL = 64 * 64 * 4


@pytest.mark.parametrize(
    "function",
    [torch.relu, lambda x: torch.softmax(x, 1), lambda x: x.amax(1), torch.sum, lambda x: x.argsort(1)],
)
def test_what_the_outputs_depend_on_must_be_read(function: Any) -> None:
    assert read(function, one) == ALL


def test_what_no_output_depends_on_need_not_be_read() -> None:
    assert read(lambda x, y: x + 1, two) == ALL
    assert read(lambda x: torch.zeros_like(x), one) == 0
    assert read(lambda x: x - x.mean(1, keepdim=True).expand_as(x) * 0 - x, one) == 0, "it computes, and nothing comes"
    assert read(lambda x: x[:1] * 2, one) < ALL / 2


def test_a_share_of_few_elements_is_not_overestimated_by_more_than_the_margin() -> None:
    for share in (1 / 16, 1 / 8, 1 / 4, 1 / 3, 0.45):
        chances = [math.comb(12, k) * share**k * (1 - share) ** (12 - k) for k in range(13)]
        too_much = sum(chance for k, chance in enumerate(chances) if sure_share(k, 12) > 2 * share)
        assert too_much <= CHANCE
    assert sure_share(12, 12) == pytest.approx(1) and sure_share(0, 12) == 0 and sure_share(6, 6) < 1


def test_what_is_the_same_for_all_seeds_need_not_be_read() -> None:
    assert read(lambda x, y: x @ y, lambda: (torch.randn(64, 64), torch.eye(64))) <= ALL * 1.1
    assert read(lambda x: x * 2, lambda: (torch.randn(64, 64).tril(),)) < ALL


def test_an_expanded_input_is_read_once() -> None:
    assert read(lambda x: x * 2, lambda: (torch.randn(1, 64).expand(64, 64),)) == 64 * 4


def test_of_a_reference_that_draws_at_random_nothing_is_known() -> None:
    assert read(lambda x: x * torch.rand(()), one) == 0


def test_of_a_reference_that_is_too_slow_nothing_is_known() -> None:
    assert read_bytes(Of(torch.relu), lambda seed: one(), [1, 2, 3], False, 1e-9) == 0


def test_a_reference_that_changes_its_inputs_sees_them_as_they_were() -> None:
    assert read(lambda x: x.mul_(0.5) + 1, one) == ALL
    assert read(lambda x: x.zero_(), one) == 0


def test_a_value_that_the_reference_refuses_is_no_error() -> None:
    def refuse(x: torch.Tensor) -> torch.Tensor:
        if x.abs().max() > 5.5:
            raise ValueError("too large")
        return x * 2

    assert read(refuse, lambda: (torch.rand(64, 64) * 5,)) >= 0


def flops(function: Any, *inputs: torch.Tensor, names: tuple[str, ...] = ("mm",)) -> int:
    return product_flops(Of(function), inputs, frozenset(f"aten::{name}" for name in names))


def test_operations_count_only_where_none_can_be_spared() -> None:
    x, y = two()
    assert flops(torch.mm, x, y) == 2 * 64**3
    assert flops(lambda x, y: (x @ y).sum(1), x, y, names=("mm", "sum")) == 0, "x @ y.sum(1) is the same"
    assert flops(torch.mm, x.tril(), y) == 0, "zeros need not be multiplied"
    assert flops(torch.mm, x.half(), y.half()) == 0, "other units may be faster"


PEAKS = Peaks(tuple(1e9 for _ in SIZES), tuple(2e9 for _ in SIZES), 1e9)


def test_the_bound_is_the_longest_of_what_must_be_done() -> None:
    assert PEAKS.bound(Demand(read=1000, written=100, flops=0)) == (1000 / 1e9, "reading", 1100)
    assert PEAKS.bound(Demand(read=100, written=1000, flops=0)) == (1000 / 2e9, "writing", 1100)
    assert PEAKS.bound(Demand(read=100, written=100, flops=10**6)) == (STRASSEN * 1e-3, "multiplying", 200)


def test_memory_that_may_lie_in_a_faster_cache_is_moved_at_that_ones_speed() -> None:
    rates = tuple(float(len(SIZES) - index) for index in range(len(SIZES)))
    peaks = Peaks(rates, rates, None)
    for index, size in enumerate(SIZES):
        assert peaks.bound(Demand(size, 0, 0)).seconds == size / rates[max(index - 1, 0)]
    assert peaks.bound(Demand(1, 0, 0)).seconds == 1 / rates[0]
    noisy = Peaks((1.0, *rates[1:]), rates, None)
    assert noisy.bound(Demand(1, 0, 0)).seconds == 1 / rates[1], (
        "a measurement that was disturbed makes no bound longer"
    )


def test_only_what_is_faster_by_the_margin_is_not_believed() -> None:
    assert too_fast(1.0, bound_s=MARGIN * 1.01) and not too_fast(1.0, bound_s=MARGIN * 0.99)


def test_the_machine_is_measured_once_and_again_only_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = Bounds(tmp_path, tmp_path / "host", Cores(1, lock_file=str(tmp_path / "lock")))
    slow = Peaks(tuple(1.0 for _ in SIZES), tuple(9.0 for _ in SIZES), None)
    fast = Peaks(tuple(2.0 for _ in SIZES), tuple(3.0 for _ in SIZES), 5.0)
    for peaks in (slow, fast):
        monkeypatch.setattr("kernelrl.executor.judging.bound.measure_peaks", lambda *_, peaks=peaks: peaks)
        bounds.measure_again()
    (kept,) = (tmp_path / "host").glob("peaks-*.json")
    assert json.loads(kept.read_text()) == {"read": [2.0] * 7, "write": [9.0] * 7, "multiply": 5.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"read": [1.0]}',
        json.dumps({"read": [0.0] * 7, "write": [1.0] * 7, "multiply": None}),
        json.dumps({"read": ["1"] * 7, "write": [1.0] * 7, "multiply": None}),
    ],
)
def test_a_file_that_holds_no_speeds_is_written_anew(tmp_path: Path, text: str) -> None:
    def bounds() -> Bounds:
        return Bounds(tmp_path, tmp_path / "host", Cores(1, lock_file=str(tmp_path / "lock")))

    bounds().measure_again()
    (kept,) = (tmp_path / "host").glob("peaks-*.json")
    kept.write_text(text)
    bounds().measure_again()
    assert all(rate > 1e6 for rate in json.loads(kept.read_text())["read"])


def test_a_program_that_measures_otherwise_measures_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelrl.executor.judging.bound.measure_peaks", lambda *_: PEAKS)
    for sizes in (SIZES, tuple(2 * size for size in SIZES)):
        monkeypatch.setattr("kernelrl.executor.judging.bound.SIZES", sizes)
        Bounds(tmp_path, tmp_path / "host", Cores(1, lock_file=str(tmp_path / "lock"))).measure_again()
    assert len(list((tmp_path / "host").glob("peaks-*.json"))) == 2


TOO_MANY_THREADS = """
import ctypes, os, resource, sys
peak = ctypes.CDLL(sys.argv[1]).kernelrl_peak
peak.restype = ctypes.c_double
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
resource.setrlimit(resource.RLIMIT_AS, (held + (40 << 20),) * 2)
memory = (ctypes.c_char * (1 << 16))()
threads = len(os.listdir("/proc/self/task"))
assert peak(3, memory, ctypes.c_size_t(1 << 16), 64, ctypes.c_double(0.001)) == 0
while len(os.listdir("/proc/self/task")) > threads:  # none waits for those that do not exist
    pass
"""


def test_a_machine_that_starts_too_few_threads_is_not_waited_for(tmp_path: Path) -> None:
    helper = compiled_helper(tmp_path, "peaks")
    subprocess.run([sys.executable, "-c", TOO_MANY_THREADS, helper], check=True, timeout=PATIENCE_S)


def test_what_are_no_speeds_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelrl.executor.judging.bound.SIZES", (0,) * 7)
    with pytest.raises(InfrastructureError, match="cannot measure this machine: no speeds"):
        measure_peaks(tmp_path, Cores(1, lock_file=str(tmp_path / "lock")))


def test_a_machine_reads_writes_and_multiplies(tmp_path: Path) -> None:
    peaks = measure_peaks(tmp_path, Cores(1, lock_file=str(tmp_path / "lock")))
    assert all(rate > 1e6 for rate in (*peaks.read, *peaks.write))


@pytest.mark.slow
def test_a_verdict_has_the_bound_and_a_machine_that_was_measured_badly_is_measured_again(fresh_cache: Path) -> None:
    settings = {**FAST, "cache_dir": str(fresh_cache), "verdict_cache": False}
    with make_executor(settings) as engine:
        verdict = judge(engine, KERNELS["right"])
    assert verdict.correct and verdict.bound_ms is not None and verdict.bound_ms > 0, verdict.feedback
    (kept,) = fresh_cache.glob("hosts/*/peaks-*.json")
    kept.write_text(json.dumps({"read": [1e12] * 7, "write": [1e12] * 7, "multiply": None}))
    with make_executor(settings) as engine:
        known = judge(engine, KERNELS["right"])
    assert known.correct and known.bound_ms == pytest.approx(4 * 256 * 1024 / 1e12 * 1e3), "of the speeds that are kept"
    kept.write_text(json.dumps({"read": [1.0] * 7, "write": [1.0] * 7, "multiply": None}))
    with make_executor(settings) as engine:
        again = judge(engine, KERNELS["right"], REFERENCE)
    assert again.correct, again.feedback
    assert json.loads(kept.read_text())["read"][0] > 1.0
