"""Tasks: KernelBench's format, checked without running anything."""

import pytest
from pydantic import ValidationError

from kernelrl.errors import TaskError
from kernelrl.task import Task

SOURCE = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(4)]

def get_init_inputs():
    return []
"""


def write(folder, data):
    path = folder / "relu.py"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("data", [SOURCE, SOURCE.replace("\n", "\r\n"), "\ufeff" + SOURCE, "# größer\n" + SOURCE])
def test_from_file(tmp_path, data):
    task = Task.from_file(write(tmp_path, data), category="activation")
    assert (task.id, task.category, task.origin) == ("relu", "activation", "user")
    assert not task.source.startswith("\ufeff")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "does not define Model, get_inputs, get_init_inputs"),
        (SOURCE.replace("class Model(", "class Net("), "does not define Model;"),
        (SOURCE.replace("get_inputs", "inputs"), "does not define get_inputs;"),
        ("def f(:\n", "syntax error on line 1"),
        (SOURCE + "  x = 1\n", "syntax error on line 13"),
        (SOURCE + "x = 'a\0b'\n", "null bytes"),
        (SOURCE + "x = " + "-" * 200_000 + "1\n", "nested too deeply"),
        (b"\x7fELF\x02\x01\xff\xfe", "not a text file"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, data, message):
    path = write(tmp_path, data)
    with pytest.raises(TaskError) as error:
        Task.from_file(path)
    assert message in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(TaskError, match=r"nowhere\.py: no such file"):
        Task.from_file(tmp_path / "nowhere.py")
    with pytest.raises(TaskError, match="it is a folder"):
        Task.from_file(tmp_path)


def test_digest_covers_what_decides_a_verdict_and_nothing_else():
    task = Task(id="a", source=SOURCE)
    assert task.digest == Task(id="b", source=SOURCE, category="x", ops=("relu",)).digest
    others = [task.model_copy(update=change) for change in ({"source": ""}, {"rtol": 1e-3}, {"atol": 1e-3})]
    assert len({Task.model_validate(other.model_dump()).digest for other in (task, *others)}) == 4


def test_a_task_is_frozen_and_round_trips():
    task = Task(id="a", source=SOURCE, ops=("relu", "sum"), level=2, rtol=1e-3)
    assert Task.model_validate_json(task.model_dump_json()) == task
    with pytest.raises(ValidationError):
        task.id = "b"
    with pytest.raises(ValidationError):
        Task(id="a", source=SOURCE, sauce="")
