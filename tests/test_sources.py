"""Task sources: what each makes of its published layout, what it leaves out, and how the tasks are split."""

import ast
import json
import os
import random
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from omegaconf import OmegaConf

from conftest import KERNELS, REFERENCE
from kernelrl.candidate import Candidate
from kernelrl.configs import compose_config
from kernelrl.data import curate, sources
from kernelrl.data.filters import FilterSettings, probe
from kernelrl.data.fresh import DrawFresh
from kernelrl.data.program import hash_layers
from kernelrl.data.revisions import find_revision
from kernelrl.data.rewriting import rename
from kernelrl.data.scaling import scale
from kernelrl.data.tables import read_table
from kernelrl.data.teachers import make_teacher
from kernelrl.errors import UserError
from kernelrl.executor import Request
from kernelrl.task import Task

PROGRAM = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn({size}, 128)]


def get_init_inputs():
    return []
"""
BODIES = [
    "x.tanh()",
    "x.sigmoid()",
    "x.exp().log1p()",
    "x.softmax(1)",
    "x.cumsum(1)",
    "x + x.abs()",
    "x.sum(1)",
    "x @ x.T",
]


def program(body="x.tanh()", size=64):
    return PROGRAM.format(body=body, size=size)


def load(source, path, **changes):
    cfg = compose_config("curate", [f"tasks={source}", f"tasks.path={path}"]).tasks
    return sources.load_part(OmegaConf.merge(cfg, changes))


def tasks_of(split):
    return {task.id: task for task in (*split.train, *split.heldout)}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def runs(task):
    """The task is a program that can be trained on, as the filters see it."""
    task.check_source()
    return probe(task.source, FilterSettings(min_ms=0.0, max_ms=60_000.0)) is None


@pytest.fixture
def kernelbench(tmp_path):
    return write(tmp_path / "KernelBench", {f"level1/{n}_Op_{n}.py": program(body) for n, body in enumerate(BODIES, 1)})


# splits


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_files(tmp_path):
    programs = [(f"{number}.py", program(body)) for number, body in enumerate(BODIES)]
    splits = []
    for number in range(3):
        random.Random(number).shuffle(programs)
        splits.append(
            load("kernelbench", write(tmp_path / f"{number}" / "KernelBench", {f"level1/{n}": t for n, t in programs}))
        )
    assert splits[0] == splits[1] == splits[2]
    assert (
        len({tuple(task.id for task in load("kernelbench", tmp_path / "0", seed=seed).train) for seed in range(5)}) > 1
    )


def test_no_program_is_in_both_splits_whatever_its_sizes_and_names(tmp_path):
    files = {}
    for number, body in enumerate(BODIES):
        for size in (16, 32, 64):
            files[f"level1/{number}{size}_x.py"] = rename(program(body, size), {"x": f"argument_{size}"})
    split = load("kernelbench", write(tmp_path, files), heldout=0.5)
    train, heldout = ({hash_layers(task.source) for task in tasks} for tasks in (split.train, split.heldout))
    assert len(train) + len(heldout) == len(BODIES) and not train & heldout
    assert len(split.train) + len(split.heldout) == 3 * len(BODIES)


@pytest.mark.parametrize(("heldout", "number"), [(0.25, 2), (3, 3), (0, 0), (0.01, 1)])
def test_heldout_is_a_share_or_a_number(kernelbench, heldout, number):
    assert len(load("kernelbench", kernelbench, heldout=heldout).heldout) == number


def test_heldout_that_is_neither(kernelbench):
    with pytest.raises(UserError, match=r"tasks.heldout=1.5: give a share of the programs, e.g. 0.1, or their number"):
        load("kernelbench", kernelbench, heldout=1.5)


def test_a_program_is_known_by_its_computation_without_numbers_and_unused_attributes():
    unused = program("x.tanh()").replace("Model(nn.Module):", 'Model(nn.Module):\n    """Text."""\n    factor = 3\n')
    assert hash_layers(unused) == hash_layers(program("x.tanh()"))
    assert hash_layers(program("x * 2")) == hash_layers(program("x * 3", size=7).replace("x", "value"))
    assert hash_layers(program("x.tanh()")) != hash_layers(program("x.sigmoid()"))
    assert hash_layers(program("x - x.abs()")) != hash_layers(program("x.abs() - x"))
    assert hash_layers("not a program") != hash_layers("another")


# smaller sizes


SCALED = """\
from torch import nn

width = height = 512
batch, channels = 16, 1024 * 2
hidden = [2048, 100]
kernel = 3


class Model(nn.Module):
    pass


def get_inputs():
    return [torch.rand(batch, channels, height, width)]


def get_init_inputs():
    return [channels, hidden, kernel]
"""


def test_sizes_are_halved_the_largest_first_and_equal_ones_alike():
    task = scale(Task(id="conv", source=SCALED), 0.01)
    assert task.id == "conv@0.01"
    assert task.source.startswith("# Sizes of the original, scaled by 0.01: 512 -> 128, 2048 -> 256\n")
    program = {}
    exec(task.source.partition("class Model")[0], program)
    assert (program["width"], program["height"], program["channels"], program["batch"]) == (128, 128, 256, 16)
    assert (program["hidden"], program["kernel"]) == ([256, 100], 3)


@pytest.mark.parametrize("line", ["N = 32", "N = 4096.0", "N = 2 ** 9999", "N = other * 4096", ""])
def test_what_is_no_size_stays(line):
    task = Task(id="small", source=SCALED.replace(SCALED[: SCALED.index("class")], f"{line}\n"))
    assert scale(task, 0.01) is task


def test_a_scale_is_a_share(kernelbench):
    with pytest.raises(UserError, match=r"tasks.scale=2: give a share of the original size between 0 and 1"):
        load("kernelbench", kernelbench, scale=2)
    large = write(kernelbench, {"level2/1_Large.py": SCALED})
    [task] = load("kernelbench", large, levels=[2], scale=0.5, heldout=0).train
    assert task.id == "kernelbench/level2/1_Large@0.5"


# KernelBench


def test_kernelbench_folder(kernelbench):
    write(kernelbench, {"level2/1_Other.py": program("x.relu().sum(0)")})
    tasks = tasks_of(load("kernelbench", kernelbench))
    task = tasks["kernelbench/level1/3_Op_3"]
    assert (task.level, task.origin, task.licence) == (1, "kernelbench", "MIT")
    assert task.source == program(BODIES[2]) and runs(task)
    assert tasks == tasks_of(load("kernelbench", kernelbench.parent))  # of the checkout
    assert list(tasks_of(load("kernelbench", kernelbench, levels=[2]))) == ["kernelbench/level2/1_Other"]
    with pytest.raises(UserError, match=r"has no level 4; it has \[1, 2\]"):
        load("kernelbench", kernelbench, levels=[1, 4])


def test_kernelbench_data_set_gives_the_tasks_of_its_folder(kernelbench, tmp_path):
    rows = [
        {"code": file.read_text(), "level": 1, "name": file.stem, "problem_id": int(file.stem.partition("_")[0])}
        for file in kernelbench.glob("level1/*.py")
    ]
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "level_1-00000-of-00001.parquet")
    assert load("kernelbench", folder.parent) == load("kernelbench", kernelbench)


def test_files_that_are_no_tasks_are_counted_and_the_first_is_named(kernelbench, caplog):
    write(kernelbench, {"level1/50_a.py": "def broken(:", "level1/60_b.py": "x = (", "level1/70_c.py": "import torch"})
    (kernelbench / "level1" / "80_d.py").write_bytes(b"\xff\xfe\x00")
    write(kernelbench, {"level1/90_e.py": program(BODIES[0])})
    split = load("kernelbench", kernelbench)
    assert split.skipped == {"does_not_parse": 2, "duplicate": 1, "not_text": 1, "wrong_format": 1}
    assert len(split.train) + len(split.heldout) == len(BODIES)
    warnings = [record.getMessage() for record in caplog.records]
    assert (
        "tasks.source=kernelbench: 2 left out: does_not_parse (task kernelbench/level1/50_a: syntax error on line 1"
        in warnings[0]
    )


def test_missing_empty_and_foreign_folders(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match=r"/nothing: no such file or folder; give the folder that holds level1/"):
        load("kernelbench", tmp_path / "nothing")
    with pytest.raises(UserError, match=r"tasks.path=.*/empty: no data set \(.*\); give the folder that holds level1/"):
        load("kernelbench", empty)
    for source in ("multikernelbench", "tritonbench", "robust_kbench", "modules"):
        with pytest.raises(UserError, match=r"tasks.path=.*/nothing: no such folder; give a "):
            load(source, tmp_path / "nothing")
        with pytest.raises(UserError, match=rf"tasks.source={source}: no task in .*/empty \(no item at all\)"):
            load(source, empty)
    with pytest.raises(
        UserError, match=r"no task in .* \(1 does_not_parse: task .*/level1/1_a: syntax error on line 1"
    ):
        load("kernelbench", write(tmp_path / "bad", {"level1/1_a.py": "def f(:"}))


def test_a_data_set_with_other_columns(tmp_path):
    pq.write_table(pa.Table.from_pylist([{"text": "a"}]), tmp_path / "train.parquet")
    with pytest.raises(UserError, match=r"column\(s\) code, level, name missing in split train; it has text"):
        load("kernelbench", tmp_path)
    with pytest.raises(UserError, match=r"column\(s\) python_code, triton_code, entry_point missing in split train"):
        load("kernelbook", tmp_path / "train.parquet")


# MultiKernelBench


def test_multikernelbench(tmp_path):
    files = {
        "reference/activation/op.py": program(BODIES[0]),
        "reference/reduce/op.py": program(BODIES[6]),
        "LICENSE": "Apache License\n Version 2.0, January 2004",
    }
    tasks = tasks_of(load("multikernelbench", write(tmp_path, files)))
    assert {task.id: (task.category, task.licence) for task in tasks.values()} == {
        "multikernelbench/activation/op": ("activation", "Apache-2.0"),
        "multikernelbench/reduce/op": ("reduce", "Apache-2.0"),
    }
    assert len(tasks_of(load("multikernelbench", tmp_path / "reference", categories=["reduce"]))) == 1
    with pytest.raises(UserError, match=r"tasks.categories: .* has no 'conv'; it has activation, reduce"):
        load("multikernelbench", tmp_path, categories=["conv"])


LISTED = """\
import torch
import torch.nn as nn
import json
import os


class Model(nn.Module):
    def forward(self, x, scale: float):
        return torch.tanh(x) * scale


def get_input_groups():
    path = os.path.join(os.path.dirname(__file__), "scaled_tanh.json")
    with open(path, "r") as f:
        cases = [json.loads(line) for line in f if line.strip()]
    dtypes = {"float32": torch.float32, "float16": torch.float16}
    groups = []
    for case in cases:
        x, scale = case["inputs"]
        groups.append([torch.randn(x["shape"], dtype=dtypes[x["dtype"]]), scale["value"]])
    return groups


def get_init_inputs():
    return []
"""


def test_multikernelbench_files_that_list_their_cases(tmp_path):
    """Each case that is taken carries its line; the largest come first, and none above the limit."""
    cases = [
        {"inputs": [{"name": "x", "dtype": "float32", "shape": shape}, {"name": "scale", "value": 2.0}]}
        for shape in ([], [0, 7], [64, 100], [32, 100], [4096, 4096, 2])
    ]
    lines = "\n".join(map(json.dumps, cases)) + "\n"
    folder, name = "reference/npukernelbench_level0", "scaled_tanh"
    files = {
        f"{folder}/{name}.py": LISTED,
        f"{folder}/{name}.json": lines,
        f"{folder}/npu.py": LISTED.replace("import os", "import os\nimport torch_npu"),
        f"{folder}/npu.json": lines,
        f"{folder}/alone.py": LISTED,
        f"{folder}/torn.py": LISTED,
        f"{folder}/torn.json": lines[:-20],
        f"{folder}/huge.py": LISTED,
        f"{folder}/huge.json": json.dumps(cases[-1]),
    }
    write(tmp_path, files)
    split = load("multikernelbench", tmp_path)
    assert split.skipped == {"no_cases": 2, "reference_in_torch_npu": 1, "too_large": 1}
    (task,) = tasks_of(split).values()
    assert (task.id, task.category) == (f"multikernelbench/npukernelbench_level0/{name}/3", "npukernelbench_level0")
    assert runs(task) and "__file__" not in task.source and json.dumps(cases[2]) in task.source
    two = load("multikernelbench", tmp_path, cases=2, heldout=0.5)
    assert sorted(tasks_of(two)) == [task.id, task.id.replace("/3", "/4")] and not (two.train and two.heldout)
    assert len(tasks_of(load("multikernelbench", tmp_path, cases=None))) == 4


# TritonBench

T_FILE = f'''\
import torch
import torch.nn.functional as F


def shifted_silu(input, shift, gain=1.0):
    """Silu of a shifted input."""
    return F.silu(input + shift) * gain

{"#" * 146}

import torch
torch.manual_seed(3)

def test_shifted_silu():
    results = {{}}
    torch.manual_seed(42)

    rows = 32
    x = torch.randn(rows, 64, device="cuda")
    shift = torch.rand(64).cuda()
    results["test_case_1"] = shifted_silu(x, shift)

    gain = 2.5
    shift = torch.zeros(64, device="cuda")
    shift[::2] = torch.rand(32)
    results["test_case_2"] = shifted_silu(x.to("cuda"), shift, gain=gain)

    fixed = torch.tensor([1.0, 2.0], device="cuda")
    results["test_case_3"] = shifted_silu(fixed, 1.0)

    empty = torch.tensor([])
    results["test_case_4"] = shifted_silu(empty, 1.0)
    return results

test_results = test_shifted_silu()
'''


def test_tritonbench_t_cases_become_tasks(tmp_path):
    folder = write(tmp_path, {"data/TritonBench_T_v1/shifted_silu.py": T_FILE})
    split = load("tritonbench", folder, heldout=0)
    assert split.skipped == {"fixed_inputs": 1}
    tasks = tasks_of(split)
    assert sorted(tasks) == [f"tritonbench-t/shifted_silu/test_case_{number}" for number in (1, 2, 3)]
    assert all(runs(task) for task in tasks.values())
    written_out = tasks["tritonbench-t/shifted_silu/test_case_3"].source
    assert "fixed = torch.empty([2]).uniform_(1.0, 2.0).to(torch.float32)" in written_out
    source = tasks["tritonbench-t/shifted_silu/test_case_2"].source
    assert source.endswith("return [x, shift]\n\n\ndef get_init_inputs():\n    return [2.5]\n")
    assert "shift[::2] = torch.rand(32)" in source and "shift = torch.rand(64)" not in source
    assert not any(word in source for word in ("cuda", "manual_seed", "results", "fixed"))


def test_cases_of_one_tritonbench_file_differ_in_their_arguments_alone(tmp_path):
    """`shift` is a tensor in two cases and so an input in all; `gain`, always a number, is the constructor's."""
    tasks = tasks_of(load("tritonbench", write(tmp_path, {"TritonBench_T_v1/shifted_silu.py": T_FILE}), heldout=0))
    assert {task.case_of for task in tasks.values()} == {"tritonbench-t/shifted_silu"}
    models = {task.source.partition("class Model")[2].partition("def get_inputs")[0] for task in tasks.values()}
    assert models == {
        "(torch.nn.Module):\n"
        "    def __init__(self, gain):\n"
        "        super().__init__()\n"
        "        self.arguments = {'gain': gain}\n\n"
        "    def forward(self, input, shift):\n"
        "        return shifted_silu(input=input, shift=shift, **self.arguments)\n\n\n"
    }
    third = tasks["tritonbench-t/shifted_silu/test_case_3"].source
    assert "return [fixed, 1.0]" in third and third.endswith("return [1.0]\n")


def test_cases_that_no_signature_fits_stand_alone(tmp_path):
    operator = "import torch\n\ndef total(*parts):\n    return torch.stack(parts).sum(0).sin()\n"
    test = (
        "def test_total():\n    results = {}\n    x = torch.rand(3)\n    y = torch.rand(3)\n"
        "    results['one'] = total(x)\n    results['two'] = total(x, y)\n"
    )
    folder = write(tmp_path, {"TritonBench_T_v1/total.py": f"{operator}\n{'#' * 146}\n{test}"})
    tasks = tasks_of(load("tritonbench", folder, heldout=0))
    assert {task.case_of for task in tasks.values()} == {None} and all(runs(task) for task in tasks.values())
    assert "return total(x, y)" in tasks["tritonbench-t/total/two"].source


def test_a_written_tensor_is_drawn_in_every_case_that_reads_it(tmp_path):
    """The lines of one case are among those before the next one, which sets the same variable anew."""
    operator = "import torch\n\ndef twice(x):\n    return 2 * x\n"
    test = (
        "def test_twice():\n    results = {}\n"
        "    x = torch.tensor([1.0, 2.0])\n    results['one'] = twice(x)\n"
        "    x = torch.tensor([3.0, 4.0])\n    results['two'] = twice(x)\n"
    )
    folder = write(tmp_path, {"TritonBench_T_v1/twice.py": f"{operator}\n{'#' * 146}\n{test}"})
    tasks = tasks_of(load("tritonbench", folder, heldout=0))
    inputs = [task.source.partition("get_inputs():\n")[2].splitlines()[0] for _, task in sorted(tasks.items())]
    assert inputs == [
        "    x = torch.empty([2]).uniform_(1.0, 2.0).to(torch.float32)",
        "    x = torch.empty([2]).uniform_(3.0, 4.0).to(torch.float32)",
    ]


@pytest.mark.parametrize(
    ("written", "dtype", "holds"),
    [
        ("torch.tensor([[-1.5, 2.0, 0.0]], device=None)", None, None),  # an argument that is not known: it stays
        ("torch.tensor([])", None, None),
        ("torch.tensor(3.0)", torch.float32, lambda x: 1.5 <= x <= 4.5),
        ("torch.tensor([[-1.5, 2.0, 0.0]])", torch.float32, lambda x: (x.abs() <= 2).all()),
        ("torch.tensor([0, 7, 3], dtype=torch.int32)", torch.int32, lambda x: ((x >= 0) & (x <= 7)).all()),
        ("torch.tensor([4, 4])", torch.int64, lambda x: ((x >= 1) & (x <= 4)).all()),
        ("torch.tensor([2, 0, 1, 3])", torch.int64, lambda x: x.sort().values.tolist() == [0, 1, 2, 3]),
        ("torch.tensor([True, False, True])", torch.bool, None),
        ("torch.tensor([1 + 2j, 3])", torch.complex64, None),
        ("torch.tensor([[2.0, 1.0], [1.0, 2.0]])", torch.float32, lambda x: (torch.linalg.eigvalsh(x) > 0).all()),
        ("torch.tensor([[0.0, 1.0], [1.0, 0.0]])", torch.float32, lambda x: torch.equal(x, x.T)),
        ("torch.tensor([[2.0, 0.0], [5.0, 1.0]])", torch.float32, lambda x: x[0, 1] == 0 and x.diagonal().min() >= 1),
        ("torch.ones(2, 3, dtype=torch.float64)", torch.float64, None),
        ("torch.eye(3)", torch.float32, None),
        ("torch.linspace(-5.0, 5.0, steps=10)", torch.float32, lambda x: (x.abs() <= 5).all()),
    ],
)
def test_a_tensor_that_is_written_out_becomes_a_draw_of_its_kind(written, dtype, holds):
    tree = DrawFresh().visit(ast.parse(written, mode="eval"))
    drawn = [eval(ast.unparse(tree)) for _ in range(8)]
    original = eval(written)
    assert {tensor.shape for tensor in drawn} == {original.shape}
    assert any(not torch.equal(drawn[0], other) for other in drawn[1:]) == (dtype is not None)
    assert {tensor.dtype for tensor in drawn} == {original.dtype if dtype is None else dtype}
    assert holds is None or all(holds(tensor) for tensor in drawn)


def test_tritonbench_says_why_a_file_is_no_task(tmp_path):
    kernel = "import triton\n\n\ndef add(x):\n    return x\n"
    test = f'\n{"#" * 146}\ndef test_add():\n    results = {{}}\n    results["a"] = add(torch.rand(2))\n'
    files = {
        "kernel.py": kernel + test,
        "no_test.py": "def add(x):\n    return x\n",
        "with.py": f"def add(x):\n    return x\n{'#' * 146}\ndef test():\n    results = {{}}\n    results['a'] = 1\n",
        "broken.py": "def add(:\n" + test,
        "inline.py": "import torch\ndef add(x):\n    return x\n" + test,
    }
    folder = write(tmp_path, {f"TritonBench_G_v1/{name}": text for name, text in files.items()})
    with pytest.raises(UserError, match="1 no_inputs: .*inline.py: a, 1 no_test: .*, 1 reference_in_triton: "):
        load("tritonbench", folder, channel="G")


# KernelBook

BOOK_MODULE = """\
import torch
import torch.nn as nn


class ScaledLinear(nn.Module):

    def __init__(self, in_dim, bias=True, scale=0.5):
        super(ScaledLinear, self).__init__()
        self.linear = nn.Linear(in_dim, 8, bias)
        self.scale = scale

    def forward(self, x):
        return self.linear(x) * self.scale


def get_inputs():
    return [torch.rand([4, 4, 4])]


def get_init_inputs():
    return [[], {'in_dim': 4, 'scale': 2.0}]
"""
ROW = {
    "entry_point": "ScaledLinear",
    "original_triton_code": "",
    "python_code": BOOK_MODULE,
    "triton_code": "import triton\n\n\nclass ScaledLinearNew(nn.Module):\n    pass\n",
    "repo_name": "somebody/layers",
    "module_name": "ScaledLinear",
    "synthetic": False,
    "uuid": 7,
    "licenses": ["MIT"],
    "stars": 3,
    "sha": "0a1b2c",
    "repo_link": "",
}


@pytest.fixture
def kernelbook(tmp_path):
    rows = [
        ROW,
        ROW | {"uuid": 8, "python_code": BOOK_MODULE.replace("'scale'", "'gain'"), "licenses": ["MIT", "Apache-2.0"]},
        ROW
        | {"uuid": 9, "python_code": BOOK_MODULE.replace("[], {'in_dim': 4, 'scale': 2.0}", "[4], {}"), "licenses": []},
        ROW | {"uuid": 10, "entry_point": "Other"},
        ROW | {"uuid": 11, "python_code": "class (:", "triton_code": None},
        ROW | {"uuid": 12, "python_code": BOOK_MODULE + "\n\nclass Model:\n    pass\n"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "dataset_permissive.parquet")
    return tmp_path / "dataset_permissive.parquet"


@pytest.mark.parametrize("form", ["file", "folder"])
def test_kernelbook_rows_become_tasks(kernelbook, form):
    split = load("kernelbook", kernelbook if form == "file" else kernelbook.parent, heldout=0)
    assert split.skipped == {"constructor_arguments": 1, "does_not_parse": 1, "name_taken": 1, "no_entry_point": 1}
    tasks = tasks_of(split)
    assert sorted(tasks) == ["kernelbook/7-ScaledLinear", "kernelbook/9-ScaledLinear"]
    task = tasks["kernelbook/7-ScaledLinear"]
    assert (task.origin, task.licence) == ("kernelbook:somebody/layers@0a1b2c", "MIT")
    assert task.source.endswith("def get_init_inputs():\n    return [4, True, 2.0]\n")
    assert "super(Model, self).__init__()" in task.source and "ScaledLinear" not in task.source
    assert tasks["kernelbook/9-ScaledLinear"].licence is None
    assert all(runs(task) for task in tasks.values())


def test_kernelbook_keeps_the_triton_code_for_a_teacher(kernelbook):
    cfg = compose_config("curate", ["tasks=kernelbook", f"tasks.path={kernelbook}", "teacher=paired"])
    kernels = sources.load_kernels(cfg.tasks)
    assert kernels["kernelbook/7-ScaledLinear"] == [
        sources.Kernel("triton", "import triton\n\n\nclass ModelNew(nn.Module):\n    pass\n")
    ]
    assert "kernelbook/11-ScaledLinear" not in kernels
    with pytest.raises(UserError, match="tasks.source=synthetic has no kernels beside its tasks; kernelbook and table"):
        sources.load_kernels(compose_config("curate").tasks)


PUBLISHED = """\
import torch
from torch._inductor.select_algorithm import extern_kernels
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import grid
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.runtime.triton_helpers import libdevice
import torch.nn as nn
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor


@triton.jit
def triton_poi_fused_mul_0(in_out_ptr0, in_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 128
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = xindex % 8
    tmp0 = tl.load(in_out_ptr0 + x2, xmask)
    tmp1 = tl.load(in_ptr0 + x0, xmask, eviction_policy='evict_last')
    tmp2 = tmp0 + tmp1
    tmp3 = 2.0
    tmp4 = tmp2 * tmp3
    tl.store(in_out_ptr0 + x2, tmp4, xmask)


def call(args):
    primals_1, primals_2, primals_3 = args
    args.clear()
    assert_size_stride(primals_1, (8, 4), (4, 1))
    assert_size_stride(primals_2, (8,), (1,))
    assert_size_stride(primals_3, (4, 4, 4), (16, 4, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((16, 8), (8, 1), torch.float32)
        extern_kernels.mm(reinterpret_tensor(primals_3, (16, 4), (4, 1), 0),
            reinterpret_tensor(primals_1, (4, 8), (1, 4), 0), out=buf0)
        del primals_1
        buf1 = reinterpret_tensor(buf0, (4, 4, 8), (32, 8, 1), 0)
        del buf0
        get_raw_stream(0)
        triton_poi_fused_mul_0[grid(128)](buf1, primals_2, 128, XBLOCK=128,
            num_warps=4, num_stages=1)
        del primals_2
    return buf1, reinterpret_tensor(primals_3, (16, 4), (4, 1), 0)


class ScaledLinearNew(nn.Module):

    def __init__(self, in_dim, bias=True, scale=0.5):
        super(ScaledLinearNew, self).__init__()
        self.linear = nn.Linear(in_dim, 8, bias)
        self.scale = scale

    def forward(self, input_0):
        primals_1 = self.linear.weight
        primals_2 = self.linear.bias
        primals_3 = input_0
        output = call([primals_1, primals_2, primals_3])
        return output[0]
"""


@pytest.mark.slow
def test_kernels_of_the_published_form_become_candidates(tmp_path, executor_cache, kept_executor):
    """Inductor's imports, its grid, its library calls and the wrapper around `call(args)` are no candidate's."""
    odd = PUBLISHED.replace("extern_kernels.mm", "torch.ops.aten.sort.default")
    rows = [ROW | {"triton_code": PUBLISHED}, ROW | {"uuid": 8, "triton_code": odd}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "book.parquet")
    cfg = compose_config("curate", ["tasks=kernelbook", f"tasks.path={tmp_path}/book.parquet", "teacher=paired"])
    teacher = make_teacher(cfg.teacher, "triton")
    task = tasks_of(load("kernelbook", tmp_path / "book.parquet", heldout=0))["kernelbook/7-ScaledLinear"]
    (proposal,) = teacher.propose(task, "triton")
    assert "_inductor" not in proposal.source and "call(" not in proposal.source
    assert "triton_poi_fused_mul_0[1,](buf1, self.linear.bias, 128, XBLOCK=128, num_warps=4" in proposal.source
    assert teacher.propose(task.model_copy(update={"id": "kernelbook/8-ScaledLinear"}), "triton") == []
    assert teacher.summary() == {"not_converted": {"extern kernel: sort": 1}}
    candidate = Candidate(source=proposal.source, dialect="triton")
    with kept_executor({"draws": "tests", "timing": False, "trials": 2, "cache_dir": str(executor_cache)}) as executor:
        ((_, verdict),) = executor.stream([Request(task=task, candidate=candidate, dialect="triton")])
    assert verdict.correct, verdict.feedback


# robust-kbench

FORWARD = '''\
import torch
import torch.nn as nn
import torch.nn.functional as F


def forward_fn(x: torch.Tensor, weight: torch.Tensor, slope: float) -> torch.Tensor:
    """A linear layer and a leaky relu."""
    return F.leaky_relu(F.linear(x, weight), slope)


class Model(nn.Module):
    def __init__(self, width: int = 16, slope: float = 0.1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, width))
        self.slope = slope

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.slope)


def get_inputs(rows: int = 4, width: int = 16):
    return [torch.randn(rows, width)]


input_names = ["x"]
'''
HOOK = "\n\nclass AutogradFunction(torch.autograd.Function):\n    backward_fn = None\n"
CONFIG = {
    "single_input_configs": [{"rows": 4}],
    "multi_input_configs": [{"rows": 4}, {"rows": 32}],
    "single_init_configs": [{"slope": 0.1}],
    "multi_init_configs": [{"slope": 0.1}, {"slope": 0.3}],
    "single_shared_configs": [{"width": 16}],
    "multi_shared_configs": [{"width": 24}],
}


@pytest.fixture
def robust_kbench(tmp_path):
    files = {
        "tasks/leaky/func_forward.py": FORWARD,
        "tasks/leaky/config_forward.json": json.dumps(CONFIG),
        "tasks/leaky/func_backward.py": FORWARD + HOOK,
        "tasks/leaky/config_backward.json": json.dumps(CONFIG),
        "tasks/lost/func_forward.py": FORWARD,
    }
    return write(tmp_path, files)


def test_robust_kbench_makes_a_task_of_every_configuration(robust_kbench):
    split = load("robust_kbench", robust_kbench, heldout=0)
    assert split.skipped == {"wrong_format": 1}  # no configuration beside it
    tasks = tasks_of(split)
    assert len(tasks) == 8 and all(runs(task) for task in tasks.values())
    assert {task.case_of for task in tasks.values()} == {"robust_kbench/leaky/forward", "robust_kbench/leaky/backward"}
    source = tasks["robust_kbench/leaky/forward/3"].source
    assert "def get_inputs(rows: int=32, width: int=24):" in source
    assert source.endswith("def get_init_inputs():\n    return [24, 0.3]\n")
    assert len(tasks_of(load("robust_kbench", robust_kbench, configs="single", heldout=0))) == 2


def test_robust_kbench_backward_returns_the_gradients(robust_kbench):
    import torch

    tasks = tasks_of(load("robust_kbench", robust_kbench, directions=["backward"], configs="single", heldout=0))
    (task,) = tasks.values()
    assert "AutogradFunction" not in task.source
    scope: dict = {}
    exec(task.source, scope)
    x, grad_output = scope["get_inputs"]()
    model = scope["Model"](*scope["get_init_inputs"]())
    x.requires_grad_()
    scope["Forward"].forward(model, x).backward(grad_output)
    with torch.no_grad():
        gradients = model(x, grad_output)
    for ours, theirs in zip(gradients, (x.grad, model.weight.grad), strict=True):
        torch.testing.assert_close(ours, theirs)


# tables


def test_a_table_of_rows_with_columns_of_any_name(tmp_path):
    rows = [{"code": program(body), "kind": "pointwise", "difficulty": 2} for body in BODIES]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    columns = {"source": "code", "category": "kind", "level": "difficulty"}
    splits = [load("table", tmp_path / name, columns=columns) for name in ("rows.jsonl", "rows.parquet")]
    assert splits[0] == splits[1]
    assert {(task.category, task.level) for task in splits[0].train} == {("pointwise", 2)}
    assert load("table", tmp_path, columns=columns).skipped == {"duplicate": len(rows)}
    with pytest.raises(UserError, match=r"rows.jsonl: row 1 has no source; it has code, kind, difficulty: see"):
        load("table", tmp_path)


def test_a_table_of_another_run(tmp_path):
    tasks = [Task(id=f"own/{number}", source=program(body), ops=("tanh",)) for number, body in enumerate(BODIES)]
    pq.write_table(
        pa.Table.from_pylist([{"task": task.model_dump_json()} for task in tasks]), tmp_path / "tasks_train.parquet"
    )
    assert tasks_of(load("table", tmp_path)) == {task.id: task for task in tasks}


def test_tables_that_are_none(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    (tmp_path / "b.jsonl").write_text('{"source": 1}\nnot json\n')
    with pytest.raises(UserError, match=r"a.parquet: not a Parquet file"):
        load("table", tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"b.jsonl: line 2 is not JSON .*; give one object per line"):
        load("table", tmp_path / "b.jsonl")
    with pytest.raises(UserError, match=r"c.jsonl: no such file or folder; give a .parquet, .jsonl, .json file"):
        load("table", tmp_path / "c.jsonl")
    (tmp_path / "d.jsonl").write_text('{"source": 1}\n')
    with pytest.raises(UserError, match=r"1 wrong_row: .*d.jsonl:1: source: Input should be a valid string"):
        load("table", tmp_path / "d.jsonl")


# mixtures


def test_a_mixture_keeps_its_shares_from_the_first_task_on(kernelbench, tmp_path):
    rows = [
        {"source": program(f"x.{name}() * 2")} for name in "sin cos sinh cosh asinh atan erf tan ceil floor".split()
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"source": program(BODIES[0])}])))
    base = compose_config("curate", ["tasks=kernelbench"]).tasks
    table = compose_config("curate", ["tasks=table"]).tasks
    parts = {
        "bench": OmegaConf.merge(base, {"path": str(kernelbench), "heldout": 0, "seed": 0}),
        "table": OmegaConf.merge(table, {"path": str(tmp_path / "rows.jsonl"), "heldout": 2, "seed": 0}),
    }
    mixture = {
        "source": "mixture",
        "parts": parts,
        "shares": {"bench": 1, "table": 2},
        "num_train": 6,
        "num_heldout": None,
    }
    split = sources.load(OmegaConf.create(mixture))
    origins = [task.origin for task in split.train]
    assert [origins[start : start + 3].count("kernelbench") for start in range(0, len(origins) - 2, 3)] == [1] * (
        len(origins) // 3
    )
    assert len(split.heldout) == 2 and len(split.train) >= 12
    assert not {hash_layers(task.source) for task in split.train} & {hash_layers(task.source) for task in split.heldout}
    with pytest.raises(UserError, match=r"tasks.shares names bench; tasks.parts names bench, table"):
        sources.load(OmegaConf.create(mixture | {"shares": {"bench": 1}}))
    with pytest.raises(UserError, match=r"tasks.shares.table=0: give a positive weight"):
        sources.load(OmegaConf.create(mixture | {"shares": {"bench": 1, "table": 0}}))


def test_the_mixture_of_the_config_composes():
    cfg = compose_config("curate", ["tasks=mixture", "tasks.parts.synthetic.num_train=9", "tasks.shares.kernelbook=2"])
    assert cfg.tasks.parts.synthetic.num_train == 9 and cfg.tasks.parts.kernelbook.source == "kernelbook"


# curation and evaluation


@pytest.fixture(scope="module", autouse=True)
def _kept_executor(kept_executor):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curate, "make_executor", kept_executor)
        yield


@pytest.mark.slow
def test_curation_reads_a_benchmark(kernelbench, tmp_path, kernelrl, executor_cache):
    command = ["curate", "tasks=kernelbench", f"tasks.path={kernelbench}", "curate.num_triples=0"]
    command += ["filters.min_ms=0", "filters.max_ms=10000"]  # what is kept must not depend on the machine's load
    write(kernelbench, {"level1/99_broken.py": "def f(:"})
    done = kernelrl(*command, f"output_dir={tmp_path}/out", f"executor.cache_dir={executor_cache}")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "data"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["source_skipped"] == {"does_not_parse": 1}
    rows = [row for name in ("train", "heldout") for row in read_table(folder / f"tasks_{name}.parquet", ["task_id"])]
    assert len(rows) == summary["tasks_train"] + summary["tasks_heldout"] == len(BODIES)


def test_a_source_needs_a_path(kernelrl):
    done = kernelrl("curate", "tasks=modules")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "error: tasks.path is not set; tasks.source=modules reads a folder or a file: tasks.path=FOLDER"
    )


@pytest.mark.slow
def test_published_kernels_enter_a_data_set_like_all_others_by_their_verdict(tmp_path, executor_cache):
    rows = [{"source": REFERENCE, "kernel": KERNELS[name], "dialect": "cpp"} for name in ("right", "wrong")]
    rows += [{"source": program(body), "kernel": None, "dialect": None} for body in BODIES[:4]]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    overrides = ["tasks=table", f"tasks.path={tmp_path}", "tasks.columns.kernel=kernel", "teacher=paired"]
    overrides += ["tasks.columns.dialect=dialect", "filters.min_ms=0", "filters.max_ms=10000"]
    overrides += [f"output_dir={tmp_path}/out"]
    seed = next(n for n in range(9) if any("relu" in task.source for task in load("table", tmp_path, seed=n).train))
    cfg = compose_config("curate", [*overrides, f"tasks.seed={seed}", f"executor.cache_dir={executor_cache}"])
    folder = curate.run(cfg)
    assert json.loads((folder / "summary.json").read_text())["proposals_by_status"] == {"correct": 1, "incorrect": 1}
    (triple,) = read_table(folder / "sft_train.parquet", ["kernel", "teacher"])
    assert triple == {"kernel": KERNELS["right"], "teacher": "paired"}


PUBLISHED_AT = os.environ.get("KERNELRL_BENCHMARKS", "")
"""A folder with checkouts of the four benchmarks, by their names; their tasks are read where it is there."""


@pytest.mark.skipif(not PUBLISHED_AT, reason="KERNELRL_BENCHMARKS names no folder of checkouts")
@pytest.mark.parametrize(
    ("name", "folder", "number"),
    [
        ("kernelbench", "KernelBench/KernelBench", 270),
        ("multikernelbench", "MultiKernelBench", 375),
        ("tritonbench", "TritonBench", 540),
        ("robust_kbench", "robust-kbench/tasks", 240),
    ],
)
def test_the_benchmarks_themselves_are_read(name, folder, number):
    split = load(name, Path(PUBLISHED_AT) / folder)
    assert len(split.train) + len(split.heldout) >= number


def test_all_tasks_of_a_source_in_natural_order(kernelbench):
    write(
        kernelbench, {f"level1/{number}_Op.py": program(f"x.{name}()") for number, name in ((10, "sin"), (100, "cos"))}
    )
    cfg = compose_config("eval", ["tasks=kernelbench", f"tasks.path={kernelbench}"]).tasks
    numbers = [int(Path(task.id).name.partition("_")[0]) for task in sources.load_all(cfg)]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8, 10, 100]


BAD_TEXT = b"\xff\xfe\x00"


@pytest.mark.parametrize("source", ["table", "kernelbench"])
def test_a_row_that_is_not_text_is_left_out_and_named(source, tmp_path):
    """Nobody checks the text of a Parquet file when it is written."""
    columns = {"name": [b"1_a", b"2_b"], "code": [program("x.tanh()").encode(), BAD_TEXT]}
    table = pa.table({name: pa.array(values, pa.binary()).view(pa.string()) for name, values in columns.items()})
    table = table.append_column("level", pa.array([1, 1]))
    pq.write_table(table, tmp_path / "train.parquet")
    changes = {"heldout": 0} | ({"columns": {"id": "name", "source": "code"}} if source == "table" else {})
    split = load(source, tmp_path / "train.parquet", **changes)
    assert split.skipped == {"not_text": 1} and len(split.train) == 1


def test_a_line_that_is_not_text_is_left_out_and_named(tmp_path, caplog):
    lines = [json.dumps({"id": "a", "source": program()}).encode(), b'{"id": "b", "source": "' + BAD_TEXT + b'"}']
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(lines))
    split = load("table", tmp_path / "tasks.jsonl", heldout=0)
    assert split.skipped == {"not_text": 1} and f"not_text ({tmp_path}/tasks.jsonl:2)" in caplog.text


def test_the_revision_of_a_checkout_and_of_a_data_set_on_the_hub(tmp_path, monkeypatch):
    assert find_revision(str(tmp_path)) is None and find_revision(None) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a.py").touch()
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert find_revision(str(tmp_path)) == find_revision(str(tmp_path / "a.py")) == head
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert find_revision("me/tasks", "main") == "main"  # the hub cannot be asked: reading will say so
