"""All calls are alike: outputs are made in memory of their own call, on inputs of their own, and every call counts."""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import tvm_ffi

from conftest import KERNELS, REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge, request
from kernelrl.errors import InfrastructureError
from kernelrl.executor import Executor, ExecutorSettings, make_executor
from kernelrl.executor.contest.builds import HandedOver
from kernelrl.executor.engines.service import MAX_REFERENCES, REFERENCE_BYTES, References
from kernelrl.executor.judging.findings import Call, Findings
from kernelrl.executor.judging.reference import Reference
from kernelrl.executor.processes import call_memory
from kernelrl.executor.processes.call_memory import CallMemory
from kernelrl.task import Task
from kernelrl.verdict import Verdict


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    """The dynamic defences alone."""
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "static_rules": False}) as engine:
        yield engine


FILLED = 0x5A


@pytest.fixture(autouse=True)
def one_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_memory, "GARBAGE", (FILLED,))


def rules(verdict: Verdict) -> set[str]:
    return {violation.rule for violation in verdict.violations}


LYING = """\
import gc
import torch
import tvm_ffi
from torch import nn
from kernelrl.executor.contest.call_region import CallRegion

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.empty(64, *x.shape)
            self.turn = 0
            CallRegion.end = lambda region: {spans}
        out = self.kept[self.turn]
        self.turn += 1
        return torch.mul(torch.relu(x), 2.0, out=out)
"""


@pytest.mark.parametrize("spans", ["[[0, 4096]]", "[]"])
def test_a_process_that_lies_about_its_memory_gains_nothing(executor: Executor, spans: str) -> None:
    """Outputs lie in memory that the first call has taken, and that nothing names as free: it is not overwritten."""
    assert rules(judge(executor, LYING.replace("{spans}", spans), dialect="python")) == {"output_reused"}


def test_what_the_process_names_as_its_memory_must_be_spans(executor: Executor) -> None:
    for spans in ("[[5, 1]]", "[[0, 1 << 60]]", "'all'", "[[0.5, 1]]"):
        assert rules(judge(executor, LYING.replace("{spans}", spans), dialect="python")) == {"forged_message"}


def test_the_memory_of_a_call_is_overwritten_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_memory, "SLACK_BYTES", 96)
    memory = CallMemory(1 << 20)
    memory.overwrite([[0, 1 << 20]], 4000)
    assert memory.at(64, 8).tolist() == [FILLED] * 8, "what the first call will take is filled"
    assert memory.at(8192, 8).tolist() == [0] * 8, "what nobody has touched stays so"
    os.pwrite(memory.fd, bytes(range(1, 101)) * 100, 4096)
    memory.overwrite([[0, 5000], [6000, 1 << 20]], 0)
    assert set(memory.at(4096, 5000 - 4096).tolist()) == {FILLED}
    assert FILLED not in set(memory.at(5000, 50).tolist()), "what is in use stays"
    assert set(memory.at(6064, 2000).tolist()) == {FILLED}
    assert memory.holds(8192, 100) and not memory.holds(4990, 20) and not memory.holds(5500, 10)
    assert not memory.holds(6000, 64), "the allocator's note is not overwritten, so no output lies there"


def test_what_a_call_finds_there_is_another_thing_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minimum with a large number changes nothing, nor does a product of zero with a finite one."""
    monkeypatch.undo()
    memory, found = CallMemory(1 << 20), set[int]()
    for _ in range(200):
        memory.overwrite([[0, 1 << 20]], 4000)
        found |= set(memory.at(64, 4000).tolist())
    assert found == set(call_memory.GARBAGE)


def test_what_is_touched_beyond_all_measure_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_memory, "OVERWRITTEN_BYTES", 8192)
    monkeypatch.setattr(call_memory, "SLACK_BYTES", 0)
    memory = CallMemory(1 << 20)
    os.pwrite(memory.fd, b"x" * (1 << 20), 0)
    memory.overwrite([[0, 1 << 20]], 0)
    assert set(memory.at(64, 8192).tolist()) == {FILLED} and not memory.at(8256, (1 << 20) - 8256).any()


def test_outputs_on_memory_that_nobody_has_filled_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_memory, "SLACK_BYTES", 96)
    monkeypatch.setattr(call_memory, "OVERWRITTEN_BYTES", 1 << 16)
    memory = CallMemory(1 << 20)
    memory.overwrite([[0, 1 << 20]], 4000)
    assert not memory.lay_unfilled([(64, 4000)])
    assert memory.lay_unfilled([(64, 4000), (4000, 8192)]), "its end was zero"
    memory.overwrite([[0, 1 << 20]], 4000)
    assert set(memory.at(4000, 8192).tolist()) == {FILLED}
    assert not memory.lay_unfilled([(64, 4000), (4000, 8192)]), "it is filled before the next call"
    os.pwrite(memory.fd, b"x" * (1 << 19), 0)
    memory.lay_unfilled([(300_000, 8192)])
    memory.overwrite([[0, 1 << 20]], 4000)
    assert not memory.lay_unfilled([(300_000, 8192)]), "whatever else is cleared"
    assert not memory.at(200_000, 8192).any()


def test_a_kernel_that_takes_further_memory_in_each_call_finds_it_filled() -> None:
    memory, unfilled = CallMemory(1 << 28), []
    for call in range(8):
        top = call * (1 << 23)
        memory.overwrite([[top, 1 << 28]], 1 << 20)
        unfilled.append(memory.lay_unfilled([(top + (1 << 22), 1 << 22)]))
    assert unfilled == [True, True, *[False] * 6]


def test_memory_of_a_call_keeps_its_size() -> None:
    memory = CallMemory(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(memory.fd, 0)


def _timed(counted: float, before: float) -> Findings:
    calls = [Call(2.0, counted, None, 2.1, before, turn) for turn in range(7)]
    return Findings(stage="correct", calls=calls, overheads=[1e-4])


def _verdict(found: Findings) -> Verdict:
    return found.verdict(request(RIGHT), ExecutorSettings(), "correct", "", 1.0)


def test_calls_that_do_not_count_are_no_place_for_work() -> None:
    """Cheap where it counts, and dear in the calls around it: then all of them count."""
    honest, moving = _verdict(_timed(1.0, 1.15)), _verdict(_timed(0.2, 1.8))
    assert not honest.uneven and honest.speedup is not None and honest.speedup.median == pytest.approx(2.0, rel=1e-3)
    assert moving.uneven and moving.speedup is not None and moving.speedup.median == pytest.approx(2.05, rel=1e-3)


@pytest.mark.parametrize(
    ("computed", "longest", "median"),
    [
        ([1.0] * 18 + [7.0] * 2, 2.0, 1.25),
        ([1.0] * 18 + [7.0] * 2, 30.0, 1.52),
        ([1.0] * 19 + [90.0], 2.0, 2.0),
        ([1.0, 1.1] * 10, 2.0, 2.0),
        ([], 2.0, 2.0),
    ],
    ids=["twice", "twice, and one of the reference's is long, too", "once", "as usual", "not known"],
)
def test_work_of_many_calls_in_one_of_them_counts(computed: list[float], longest: float, median: float) -> None:
    found = replace(_timed(1.0, 1.0), computed=computed, computed_reference=[2.0] * 19 + [longest])
    assert found.has_a_long_call == (max(computed, default=0) == 90)
    verdict = _verdict(found)
    assert verdict.speedup is not None and verdict.speedup.median == pytest.approx(median, rel=1e-2)
    assert verdict.uneven == (median < 2)


BURSTS = RIGHT.replace(
    "  int64_t n = x.numel();\n",
    """  int64_t n = x.numel();
  static int call = 0;
  static volatile float sink;
  if (++call % 5 == 0) for (int i = 0; i < 30000000; ++i) sink = i * 0.5f;
""",
)


@pytest.mark.slow
def test_a_kernel_that_works_for_many_calls_in_one_of_them_is_not_fast(
    executor_cache: Path, kept_executor: Kept
) -> None:
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "min_pairs": 12, "max_pairs": 12}) as engine:
        honest, verdict = (judge(engine, source) for source in (RIGHT + "\n# honest", BURSTS))
    assert honest.correct and not honest.uneven, honest.feedback
    assert verdict.correct and verdict.uneven and verdict.speedup is not None and verdict.speedup.median < 1


def test_one_slow_call_at_the_beginning_of_a_turn_is_not_many() -> None:
    """All pairs of a turn share its first call."""
    calls = [Call(2.0, 1.0, None, 2.1, 9.0 if turn == 0 else 1.1, turn) for turn in (0, 0, 0, 0, 1, 2, 3)]
    found = Findings(stage="correct", calls=calls, overheads=[1e-4])
    assert not _verdict(found).uneven


def test_times_that_are_not_told_apart_are_not_told() -> None:
    calls = [Call(1.2e-3, 1.1e-3, None, 1.2e-3, 1.1e-3, turn) for turn in range(7)]
    verdict = _verdict(Findings(stage="correct", calls=calls, overheads=[1e-3]))
    assert "under 0.500 ms against under 0.500 ms" in verdict.feedback


def test_an_interval_that_tells_nothing_is_said_to() -> None:
    """Half of the calls take the time of a question that asks nothing."""
    short = [Call(1e-4 * (1 + turn % 2), 1e-4 * (1 + turn % 3), None, 2e-4, 2e-4, turn) for turn in range(12)]
    found = Findings(stage="correct", calls=short, overheads=[1e-4])
    assert "Too wide to tell" in _verdict(found).feedback and "0.100 ms" in _verdict(found).feedback
    assert "Too wide to tell" not in _verdict(_timed(1.0, 1.15)).feedback
    long = [Call(0.1 * (1 + turn % 2 * 3), 0.1 * (1 + turn % 3), None, 0.2, 0.2, turn) for turn in range(12)]
    busy = _verdict(Findings(stage="correct", calls=long, overheads=[1e-4], load=3.4)).feedback
    assert "the machine is busy (load 3.4)" in busy and "short" not in busy


def test_where_asking_takes_longer_than_the_calls_the_load_is_named() -> None:
    calls = [Call(2.2e-2, 2.5e-3, None, 2.2e-2, 2.5e-3, turn) for turn in range(12)]
    feedback = _verdict(Findings(stage="correct", calls=calls, overheads=[2e-3])).feedback
    assert "Others keep the cores busy (asking takes 2.0 ms)" in feedback and "Too wide" not in feedback
    assert "Others" not in _verdict(Findings(stage="correct", calls=calls, overheads=[1e-4])).feedback


@pytest.mark.slow
def test_each_group_of_requests_has_its_own_inputs_and_a_verdict_names_them(executor_cache: Path) -> None:
    settings = {**FAST, "cache_dir": str(executor_cache), "verdict_cache": False}
    verdicts = []
    for draws in (None, None, "again"):
        again = verdicts[0].draws if draws else None
        with make_executor({**settings, "draws": again}) as engine:
            verdicts.append(judge(engine, KERNELS["wrong"]))
    first, second, third = verdicts
    assert first.draws == third.draws and first.errors == third.errors
    assert first.draws != second.draws and first.errors != second.errors


@pytest.mark.slow
def test_whoever_may_know_a_verdict_meets_other_inputs(executor_cache: Path) -> None:
    """However soon the next candidate comes, unless it says that it was written with the first ones."""
    sources = [KERNELS["wrong"].replace("void kernel", f"// {number}\nvoid kernel") for number in range(5)]
    with make_executor({**FAST, "cache_dir": str(executor_cache), "draws": None, "verdict_cache": False}) as engine:
        together = engine.evaluate([request(source, REFERENCE) for source in sources[:2]])
        next_turn = judge(engine, sources[2], task=REFERENCE)
        of_a_batch = [
            engine.evaluate([request(source, REFERENCE).model_copy(update={"group": "batch"})])[0]
            for source in sources[3:]
        ]
    assert len({verdict.draws for verdict in together}) == len({verdict.draws for verdict in of_a_batch}) == 1
    assert len({verdict.draws for verdict in (*together, next_turn, *of_a_batch)}) == 3


def test_whoever_may_know_a_verdict_waits_until_nobody_needs_its_inputs() -> None:
    """Candidates that were there before the first verdict share them, whatever their group is."""
    task = request(RIGHT).task
    order, renewed = list[str](), list[str]()

    class Watched(Reference):
        num_bytes = 0  # type: ignore[assignment]

        def __init__(self) -> None:
            self.process = cast(Any, SimpleNamespace(alive=True))

        def renew(self) -> None:
            renewed.append(order[-1])

    cores = cast(Any, SimpleNamespace(holding=lambda lock: lock))
    references = References(lambda task: Watched(), cores, is_waited_for=lambda task: False)

    def ask(group: str, arrived: float) -> None:
        with references.of(task, group, arrived) as get:
            get()
            order.append(group)

    with references.of(task, "first", arrived=0.0) as get:
        get()
        ask("second", arrived=0.0)
        later = threading.Thread(target=ask, args=("third", math.inf))
        later.start()
        ask("fourth", arrived=0.0)
        order.append("first")
    later.join(600)
    assert order == ["second", "fourth", "first", "third"] and renewed == ["first"]


def test_of_references_that_nobody_waits_for_the_draws_are_forgotten_first_and_then_the_processes() -> None:
    """To make a reference anew takes longer than its draws, which most of those who come later renew anyway."""
    tasks = [request(RIGHT, REFERENCE + f"# {number}").task for number in range(MAX_REFERENCES + 2)]
    forgotten, closed = list[str](), queue.SimpleQueue[str]()

    class Large(Reference):
        num_bytes = REFERENCE_BYTES // 2 + 1  # type: ignore[assignment]

        def __init__(self, task: Task) -> None:
            self.task, self.process = task, cast(Any, SimpleNamespace(alive=True))

        def forget(self) -> None:
            self.num_bytes = 0  # type: ignore[misc]
            forgotten.append(self.task.digest)

        def close(self) -> None:
            closed.put(self.task.digest)

    cores = cast(Any, SimpleNamespace(holding=lambda lock: lock))
    waited_for = {tasks[0].digest}
    references = References(Large, cores, is_waited_for=waited_for.__contains__)

    def use(task: Task) -> None:
        with references.of(task, None, arrived=0.0) as get:
            get()

    for task in tasks[:3]:
        use(task)
    assert forgotten == [tasks[1].digest], "one is waited for, one fits"
    for task in tasks[3:]:
        use(task)
    assert forgotten == [task.digest for task in tasks[1:-1]]
    assert closed.get(timeout=60) == tasks[1].digest and closed.empty()


def test_work_in_the_constructor_is_seen(executor: Executor) -> None:
    """It is not timed like the calls, and the verdict has it beside the reference's."""
    slow = RIGHT.replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n        sum(range(30_000_000))\n\n    def forward",
    )
    quick, working = judge(executor, RIGHT).construction, judge(executor, slow).construction
    assert quick is not None and working is not None and quick.reference_ms > 0
    assert working.candidate_ms > 100


def test_without_a_compiler_the_executor_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with make_executor({"cache_dir": str(tmp_path)}) as engine, pytest.raises(InfrastructureError, match="C compiler"):
        judge(engine, RIGHT)


def test_what_tensors_bring_beside_their_elements_are_numbers() -> None:
    handed_over = HandedOver()

    def count(*results: object) -> int:
        before = handed_over.count
        function = handed_over.counting(iter(results).__next__)
        for _ in results:
            function()
        return handed_over.count - before

    dense, empty = torch.zeros(3, 4), torch.empty_strided((0, 0), (123, 456))
    assert count(*[dense] * 100, dense.t(), torch.zeros(()), None) == 0
    assert count(empty) == 4 and count(torch.zeros([1] * 20)) == 40 and count(dense[:, :2]) == 1
    assert count(*(torch.zeros(size) for size in range(1, 161))) == 10
    assert count(1.0, "a text of some length") == 2 + 6 and count(1, 1 << 40, True) == 1 + 2 + 1
    assert count(*[None, dense] * 160) == count(*[dense, dense.double()] * 160) == 20, "what changes tells something"
    assert count([None] * 20, [None] * 20, [dense] * 20) == 4 + 4, "and more of it does where there is much"


def test_python_gets_lists_of_its_own_and_functions_that_count() -> None:
    handed_over = HandedOver()

    def get(result: object) -> object:
        return handed_over.counting(lambda: result)()

    inner = get([lambda: 3.0])[0]
    assert inner() == 3.0 and handed_over.count == 2
    nested = get(tvm_ffi.Array([tvm_ffi.Array([1, 2]), tvm_ffi.Map({"a": 3})]))
    assert nested == [[1, 2], {"a": 3}] and type(nested[1]) is dict and handed_over.count == 2 + 4
    with pytest.raises(TypeError, match="and no object"):
        get([object()])
