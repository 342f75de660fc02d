"""The synthesiser of tasks and the task filters."""

import ast

import pytest
import torch
from omegaconf import OmegaConf

from kernelrl.configs import compose_config
from kernelrl.data import filters, sources
from kernelrl.data.filters import FilterSettings, probe, probe_all
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.graph.operators import CATEGORIES, OPERATORS
from kernelrl.data.program import normalise
from kernelrl.errors import UserError
from kernelrl.task import Task


def draw(count, seed=0, **dials):
    stream = tasks(seed, Dials(**dials))
    return [next(stream) for _ in range(count)]


def load(*overrides):
    return sources.load(compose_config("curate", ["tasks=graph", *overrides]).tasks)


def run(task, **sizes):
    """Output of a task, with its named sizes changed."""
    source = task.source
    for name, value in sizes.items():
        source = source.replace(f"\n{name} = ", f"\n{name} = {value}  # ")
    program = {}
    exec(source, program)
    torch.manual_seed(0)
    with torch.no_grad():
        return program["Model"](*program["get_init_inputs"]())(*program["get_inputs"]())


def test_the_same_seed_and_dials_give_the_same_tasks():
    assert draw(50) == draw(50)
    assert draw(50) != draw(50, seed=1)


def test_tasks_are_distinct_up_to_renaming():
    assert len({normalise(task.source).sizes for task in draw(1000)}) == 1000


def test_every_operator_is_drawn_and_every_category_has_tasks():
    drawn = draw(4000)
    assert {name for task in drawn for name in task.ops} == set(OPERATORS)
    assert {task.category for task in drawn} == set(CATEGORIES) - {"view"}


def test_every_task_is_valid_as_drawn():
    small = {"min_elements": 2**10, "max_elements": 2**16, "max_flops": 2**26}
    for task in draw(300, **small):
        task.check_source()
        assert 1 <= len(task.ops) <= 10
        run(task)


def test_ranged_tasks_run_at_both_ends_of_their_range():
    small = {"min_elements": 2**10, "max_elements": 2**16, "max_flops": 2**26}
    ranged = [task for task in draw(80, shape_ranges=1.0, **small) if task.shape_ranges]
    assert len(ranged) > 40
    for task in ranged:
        for size in task.shape_ranges["N"]:
            run(task, N=size)


@pytest.mark.parametrize(
    ("dials", "holds"),
    [
        ({"max_ops": 1, "views": 0.0}, lambda task: len(task.ops) == 1),
        ({"min_ops": 3, "max_ops": 3, "views": 0.0, "categories": {"softmax": 1}}, lambda task: len(task.ops) == 3),
        ({"categories": {"matmul": 1.0}}, lambda task: task.category == "matmul"),
        ({"dtypes": {"bfloat16": 1.0}, "categories": {"activation": 1}}, lambda task: "bfloat16" in task.source),
        ({"parameters": 0.0, "categories": {"broadcast": 1}, "max_ops": 1}, lambda task: "__init__" not in task.source),
        ({"shape_ranges": 0.0}, lambda task: not task.shape_ranges),
        ({"views": 0.0}, lambda task: not any(OPERATORS[name].category == "view" for name in task.ops)),
    ],
)
def test_dials_do_what_they_say(dials, holds):
    assert all(holds(task) for task in draw(40, **dials))


def test_fan_out_is_a_value_used_twice():
    def operands(task):
        names = [node.id for node in ast.walk(ast.parse(task.source)) if isinstance(node, ast.Name)]
        return sum(names.count(name) > 3 for name in set(names) if name[0] in "vx")

    settings = {"categories": {"broadcast": 1}, "min_ops": 4}
    assert sum(map(operands, draw(60, fan_out=1.0, **settings))) > sum(map(operands, draw(60, fan_out=0.0, **settings)))


def test_no_composition_is_in_both_splits():
    split = load("tasks.num_train=300", "tasks.num_heldout=30", "tasks.dials.max_ops=1")
    assert not {task.ops for task in split.train} & {task.ops for task in split.heldout}
    assert len(split.train) >= 300 and len(split.heldout) >= 30
    again = load("tasks.num_train=300", "tasks.num_heldout=30", "tasks.dials.max_ops=1")
    assert [*split.train, *split.heldout] == [*again.train, *again.heldout]


def test_wrong_dials_are_named():
    with pytest.raises(UserError, match=r"tasks.dials.fan_out=2: .*less than or equal to 1"):
        load("tasks.dials.fan_out=2")
    with pytest.raises(UserError, match=r"tasks.dials.categories: 'matmull' is not known; choose from elementwise"):
        load("tasks.dials.categories={matmull: 1}")
    with pytest.raises(UserError, match=r"tasks.dials.min_ops=9 is above tasks.dials.max_ops=5"):
        load("tasks.dials.min_ops=9")


PROGRAM = """\
import torch
from torch import nn

N = 256


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(N, 1024)]


def get_init_inputs():
    return []
"""
RENAMED = """\
import torch as t
import torch.nn as layers

ROWS = 256


class Model(layers.Module):
    '''The same.'''

    def forward(self, first: t.Tensor):
        second = t.relu(first)  # the same
        return second


def get_inputs():
    return [t.randn(ROWS, 1024)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("body", "settings", "reason"),
    [
        ("return torch.tanh(x)", {}, None),
        ("return torch.tanh(x)", {"max_ms": 1e-3}, "too_slow"),
        ("return torch.tanh(x)", {"max_ms": 1e-3, "ignore": ["too_slow"]}, None),
        ("while True: x = x + 1", {"timeout_s": 0.3}, "too_slow"),
        ("return torch.tanh(x)", {"max_mb": 1.0}, "too_much_memory"),
        ("y = torch.zeros_like(x); y[0] = x[0]; return y", {}, "input_independent"),
        ("return x @ x", {}, "does_not_run"),
        ("y = torch.relu(x); y = torch.abs(y); return y + 1", {}, "idle_operator"),
        ("y = x - x.mean(dim=1, keepdim=True); return y.softmax(dim=1)", {}, "idle_operator"),
        ("y = torch.relu(x); y = torch.abs(y); return y + 1", {"ignore": ["idle_operator"]}, None),
        ("y = torch.relu(x).contiguous(); return torch.nn.functional.rms_norm(y, (1024,))", {}, None),
        ("return x @ x", {"ignore": ["does_not_run"]}, "does_not_run"),
    ],
)
def test_filters_are_configurable(body, settings, reason):
    assert probe(PROGRAM.format(body=body), FilterSettings(**{"min_ms": 0.0, "max_ms": 1e4} | settings)) == reason


def test_a_task_that_is_far_too_slow_is_called_once():
    """KernelBench's problems take seconds a call on a CPU."""

    class Slow(torch.nn.Module):
        calls = 0

        def forward(self):
            Slow.calls += 1

    for enough_ms, num_calls in ((0.0, 1), (1e9, filters.NUM_TIMED_RUNS)):
        Slow.calls = 0
        filters._fastest(Slow(), [], enough_ms)
        assert Slow.calls == num_calls


@pytest.mark.slow
def test_a_batch_is_filtered_with_its_duplicates_and_crashes_and_resumes(tmp_path):
    programs = {
        "first": PROGRAM.format(body="y = torch.relu(x)\n        return y"),
        "again": RENAMED,
        "crash": PROGRAM.format(body="import os; os.abort()"),
        "other": PROGRAM.format(body="return torch.tanh(x)"),
    }
    batch = [Task(id=name, source=source) for name, source in programs.items()]
    results = tmp_path / "filters.jsonl"
    expected = {"first": None, "again": "duplicate", "crash": "crashes", "other": None}
    assert probe_all(batch, len(batch), FilterSettings(min_ms=0.0), results) == expected
    lines = results.read_text()
    assert probe_all(batch, len(batch), FilterSettings(min_ms=0.0), results) == expected
    assert results.read_text() == lines


@pytest.mark.slow
def test_tasks_run_compiled():
    settings = FilterSettings(min_ms=0.0, compile=True, timeout_s=300.0)
    assert probe(PROGRAM.format(body="return torch.tanh(x)"), settings) is None


def test_every_filter_setting_is_in_the_config():
    config = OmegaConf.to_container(compose_config("curate").filters)
    assert config == FilterSettings().model_dump(mode="json")
