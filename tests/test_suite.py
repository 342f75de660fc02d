"""The embedded suite: what it covers, and that every task of it can be judged."""

import re
from collections import Counter

import pytest
import torch

from kernelrl.candidate import Candidate
from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.data.program import hash_layers
from kernelrl.data.sources.suite import read_suite
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import Request

TASKS = list(read_suite())
HPC = sources.load_all(compose_config("eval", ["tasks=hpc"]).tasks)
QUICK = ("suite/softmax/router_gates", "suite/quantization/quantize_rows")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Programs this small are slower on several."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def load(*overrides):
    return sources.load_all(compose_config("eval", ["tasks=suite", *overrides]).tasks)


def test_what_it_covers():
    assert len(TASKS) >= 100
    assert len({task.category for task in TASKS}) >= 14
    assert set(Counter(task.level for task in TASKS)) == {1, 2, 3}
    assert min(Counter(task.category for task in TASKS).values()) >= 7
    assert len({task.digest for task in TASKS}) == len({task.id for task in TASKS}) == len(TASKS)
    assert len({hash_layers(task.source) for task in TASKS}) >= 140, "a few are the same program in another size"


def test_the_source_gives_all_of_it_or_a_part():
    assert {task.id for task in load()} == {task.id for task in TASKS}
    assert {task.category for task in load("tasks.categories=[softmax,loss]")} == {"softmax", "loss"}
    assert {task.level for task in load("tasks.levels=[3]")} == {3}
    with pytest.raises(UserError, match=r"tasks.categories=sofmax: the suite has attention, block, "):
        load("tasks.categories=[sofmax]")


def run(source, seed):
    """The outputs of a program with inputs and parameters from a seed."""
    torch.manual_seed(seed)
    program = {"__name__": "task"}
    exec(compile(source, "task", "exec"), program)
    model = program["Model"](*program["get_init_inputs"]())
    with torch.no_grad():
        outputs = model(*program["get_inputs"]())
    return outputs if isinstance(outputs, tuple) else (outputs,)


def at(task, end):
    """The program with its hidden sizes at one end of their ranges: 0 the smallest, 1 the largest."""
    values = "".join(f"{name} = {limits[end]}\n" for name, limits in task.shape_ranges.items())
    return re.sub(r"^SHAPE_RANGES = .*\n", lambda _: values, task.source, flags=re.MULTILINE)


@pytest.mark.parametrize("category", [*sorted({task.category for task in TASKS}), "hpc"])
def test_every_program_is_deterministic_and_works_at_both_ends_of_its_sizes(category):
    for task in HPC if category == "hpc" else [task for task in TASKS if task.category == category]:
        assert '    """' in task.source, f"{task.id} says what it computes"
        outputs, again, other = run(task.source, 0), run(task.source, 0), run(task.source, 1)
        assert all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True)), task.id
        assert any(not torch.equal(a, b) for a, b in zip(outputs, other, strict=True)), f"{task.id} is constant"
        assert all(torch.isfinite(out).all() for out in (*outputs, *run(at(task, 0), 2), *run(at(task, 1), 3))), task.id


def judge(tasks, cache, **settings):
    requests = [
        Request(
            task=task,
            candidate=Candidate(source=task.source.replace("class Model(", "class ModelNew("), dialect="python"),
            dialect="python",
        )
        for task in tasks
    ]
    with make_executor({"draws": "tests", "timing": False, "cache_dir": str(cache), **settings}) as executor:
        return executor.evaluate(requests)


@pytest.mark.slow
def test_some_tasks_judge_their_own_code_to_be_correct(executor_cache):
    for verdict in judge([task for task in TASKS if task.id in QUICK], executor_cache):
        assert verdict.correct, (verdict.task_id, verdict.feedback)


@pytest.mark.slow
def test_a_sixteenth_of_the_tasks_judge_their_own_code_to_be_correct(executor_cache):
    """And within a bound on time, which counts processor time or waiting, not the load on the machine.

    `benchmarks/suite.py --contenders eager` judges all of the suite.
    """
    verdicts = judge([*TASKS, *HPC][::16], executor_cache, run_timeout_s=2.0, trials=1, threads=1)
    assert {verdict.task_id: verdict.feedback for verdict in verdicts if not verdict.correct} == {}
