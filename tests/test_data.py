"""Tasks, filters, the teacher and the tables of curation (which has its own file)."""

import tempfile

import pytest
from omegaconf import OmegaConf

from kernelrl import dialects
from kernelrl.candidate import Candidate, Completion
from kernelrl.data import sources
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.filters import FilterSettings, probe
from kernelrl.data.graph.chain import CATEGORIES, OPERATORS, category_of, make_task
from kernelrl.data.stored import StoredColumn, StoredTasks, TasksById, store
from kernelrl.data.tables import DRAWN_COLUMNS, TASK_COLUMNS, iterate_table, read_table, write_table
from kernelrl.data.teachers import make_teacher
from kernelrl.errors import UserError
from kernelrl.executor.api import Request
from kernelrl.task import Task

SETTINGS = {
    "source": "synthetic",
    "seed": 0,
    "num_train": 300,
    "num_heldout": 30,
    "min_ops": 2,
    "max_ops": 5,
    "operators": None,
}


def load(**changes):
    return sources.load(OmegaConf.create({**SETTINGS, **changes}))


def propose(task):
    return make_teacher(OmegaConf.create({"name": "template"}), "cpp").propose(task, "cpp")


def test_tasks_depend_on_the_seed_and_on_nothing_else():
    assert load() == load()
    assert load() != load(seed=1)


def test_no_held_out_composition_is_trained_on():
    split = load()
    train, heldout = ({task.ops for task in tasks} for tasks in (split.train, split.heldout))
    assert not train & heldout
    assert len(train) == len(split.train) and len(heldout) == len(split.heldout)


def test_tasks_are_kernelbench_programs_of_every_category():
    split = load()
    for task in split.train:
        task.check_source()
        assert 2 <= len(task.ops) <= 5
    assert {task.category for task in split.train} == set(CATEGORIES)


def test_more_tasks_than_compositions():
    with pytest.raises(UserError, match=r"only \d+ compositions of 1 to 1 operators found"):
        load(min_ops=1, max_ops=1)


def test_only_the_operators_asked_for():
    names = ["relu", "tanh", "add_bias", "softmax", "matmul", "sum", "l1_loss"]
    tasks = load(operators=names, num_train=100).train
    assert {name for task in tasks for name in task.ops} == set(names)
    with pytest.raises(UserError, match=r"tasks.operators: 'rellu' is not known; choose from relu"):
        load(operators=["rellu"])


def test_a_category_without_an_operator_is_named():
    with pytest.raises(UserError, match="has no operator of broadcast: add one of add_bias, mul_gain, scale_rows"):
        load(operators=["relu", "softmax"])
    with pytest.raises(UserError, match="has no operator of reduction or loss: add one of sum"):
        load(operators=["relu", "softmax", "add_bias"])
    assert load(operators=["relu", "tanh", "softmax", "add_bias", "sum"], num_train=4, num_heldout=1).train


def test_unknown_source_and_teacher():
    with pytest.raises(UserError, match=r"tasks.source='kernelbank' is not known; choose one of .*synthetic"):
        load(source="kernelbank")
    with pytest.raises(UserError, match=r"teacher.name='oracle' is not known; choose one of .*template"):
        make_teacher(OmegaConf.create({"name": "oracle"}), "cpp")
    with pytest.raises(UserError, match="teacher template does not write dialect cuda; it writes cpp, triton"):
        make_teacher(OmegaConf.create({"name": "template"}), "cuda")


def test_category_is_that_of_the_heaviest_part():
    assert category_of(("relu", "softmax", "tanh")) == "normalisation"
    assert category_of(("matmul", "relu", "sum")) == "reduction"


PROGRAM = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.tanh(x).softmax(dim=1)", None),
        ("return x @ x", "does_not_run"),
        ("return torch.log(x - x)", "not_finite"),
        ("return x + torch.rand_like(x)", "not_deterministic"),
        ("return torch.softmax(x, dim=1).sum(dim=1)", "constant_output"),
        ("return torch.arange(10.0)", "input_independent"),
    ],
)
def test_filters_say_why(body, reason):
    assert probe(PROGRAM.format(body=body), FilterSettings(min_ms=0.0)) == reason


def test_a_task_faster_than_the_limit_is_too_fast():
    seconds_at_least = FilterSettings(min_ms=60_000, max_ms=120_000)
    assert probe(PROGRAM.format(body="return x[0, :2] + 1"), seconds_at_least) == "too_fast"


@pytest.mark.parametrize("name", OPERATORS)
def test_the_teacher_writes_a_legal_kernel_for_every_operator(name):
    for proposal in propose(make_task((name, "relu"), 64, 32)):
        assert dialects.get("cpp").find_violations(proposal.source) == []
        parsed = Completion.parse(proposal.completion())
        assert (parsed.reasoning, parsed.source) == (proposal.reasoning, proposal.source)


def test_the_teacher_writes_other_kernels_for_a_program_whose_operators_are_not_known():
    task = make_task(("relu",), 64, 32)
    assert propose(task)[0].level == "parallel, native"
    assert propose(task.model_copy(update={"ops": ()}))[0].level == "tiled"


@pytest.mark.slow
def test_the_teachers_kernels_are_correct(executor_cache, kept_executor):
    compositions = [
        ("matmul", "gelu", "softmax", "mse_loss"),
        ("layer_norm", "rms_norm", "center", "log_softmax", "logsumexp"),
        ("add_bias", "mul_gain", "scale_rows", "add_residual", "l1_loss"),
        ("softplus", "hardswish", "tanhshrink", "elu", "silu", "relu6", "softsign"),
        ("matmul", "square", "amax"),
    ]
    requests = []
    for ops in compositions:
        task = make_task(ops, 96, 200)
        for proposal in propose(task):
            candidate = Candidate(source=proposal.source, dialect="cpp")
            requests.append(Request(task=task, candidate=candidate, dialect="cpp"))
    with kept_executor({"draws": "tests", "timing": False, "cache_dir": str(executor_cache)}) as executor:
        assert [verdict.status for verdict in executor.evaluate(requests)] == ["correct"] * len(requests)


def test_tables_name_what_is_wrong(tmp_path):
    path = tmp_path / "sft_train.parquet"
    with pytest.raises(UserError, match=r"no such file; run kernelrl curate first"):
        read_table(path, ["prompt"])
    path.write_text("no parquet")
    with pytest.raises(UserError, match=r"not a Parquet file"):
        read_table(path, ["prompt"])
    write_table(path, [], TASK_COLUMNS)
    with pytest.raises(UserError, match=r"column\(s\) completion, kernel missing; it has task_id"):
        read_table(path, ["prompt", "completion", "kernel"])
    with pytest.raises(UserError, match=r"it has no rows"):
        read_table(path, ["prompt"])


def test_stored_tasks_are_a_sequence_that_is_read_from_disk(tmp_path):
    tasks = [Task(id=f"t{number}", source="x = 1\n") for number in range(9)]
    splits = ("train", "train", "heldout") * 3
    rows = [{"split": split, "task": task.model_dump_json()} for split, task in zip(splits, tasks, strict=True)]
    write_table(tmp_path / "tasks.parquet", rows, DRAWN_COLUMNS)
    train, heldout = (StoredTasks(tmp_path / "tasks.parquet", split) for split in ("train", "heldout"))
    assert (len(train), len(heldout)) == (6, 3)
    assert list(heldout) == [tasks[2], tasks[5], tasks[8]] == list(heldout)
    assert (train[0], train[-1], train[1:3]) == (tasks[0], tasks[7], [tasks[1], tasks[3]])
    assert isinstance(train[1::2], StoredTasks) and list(train[1::2][1:]) == [tasks[4], tasks[7]]
    assert (len(train[1::2]), len(heldout[3:])) == (3, 0)
    with pytest.raises(IndexError):
        train[6]


def test_tasks_are_stored_as_long_as_somebody_needs_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = Task(id="t", source="x = 1\n")
    train, heldout = store([("train", task), ("heldout", task), ("train", task)])
    del heldout
    last = train[1:]
    del train
    assert list(last) == [task] and list(tmp_path.iterdir())
    del last
    assert not list(tmp_path.iterdir())


def test_a_map_on_disk_is_a_mapping():
    found = DiskMap()
    found["b"], found["a"] = 1, None
    assert found == {"a": None, "b": 1} and list(found) == ["a", "b"] and len(found) == 2
    assert found.setdefault("b", 2) == 1 and found.pop("b") == 1 and "b" not in found
    assert found.add("c") and not found.add("c") and not found.add("a")
    with pytest.raises(KeyError):
        del found["b"]


def test_tasks_and_texts_are_found_on_disk_in_any_order(tmp_path):
    """More rows than a row group holds, so that several are read."""
    tasks = [Task(id=f"t{number}", source=f"x = {number}\n") for number in range(2500)]
    path = tmp_path / "tasks.parquet"
    write_table(path, ({"split": "train", "task": task.model_dump_json()} for task in tasks), DRAWN_COLUMNS)
    found, texts = TasksById(path), StoredColumn(path, "task")
    assert len(found) == len(texts) == 2500 and set(found) == {task.id for task in tasks}
    for number in (0, 999, 1000, 2499, 1999, 3):
        assert found[f"t{number}"] == tasks[number] and texts[number] == tasks[number].model_dump_json()
    with pytest.raises(KeyError):
        found["t2500"]


def test_tables_are_written_in_pieces_and_stay_in_order(tmp_path):
    rows = ({"task_id": str(index), "level": index} for index in range(2500))
    path = tmp_path / "new" / "tasks_train.parquet"
    assert write_table(path, rows, TASK_COLUMNS) == 2500
    assert [row["level"] for row in iterate_table(path, ["level"])] == list(range(2500))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
