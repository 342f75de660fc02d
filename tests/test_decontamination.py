"""Decontamination: a benchmark task is found however it is written, others are left alone, the report says all."""

import json
import random
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

import module_tasks
import rewrites
from kernelrl import cli
from kernelrl.configs import compose_config
from kernelrl.data import decontamination
from kernelrl.data.decontamination import Benchmark, Settings, find
from kernelrl.data.decontamination import known as known_benchmarks
from kernelrl.data.decontamination.fingerprint import fingerprint_all
from kernelrl.data.decontamination.known import read_known, write_known
from kernelrl.data.decontamination.near import jaccard, shingles
from kernelrl.data.decontamination.settings import KINDS
from kernelrl.data.decontamination.trace import trace
from kernelrl.data.graph.chain import make_task
from kernelrl.data.program import normalise
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.task import Task

TASKS = Path(__file__).parent / "tasks"
PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn

N = {size}


class Model(nn.Module):
    def forward(self, x, y):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def program(body: str, size: int = 16, inputs: str = "torch.randn(4, N), torch.randn(4, N)") -> str:
    return PROGRAM.format(body=body.replace("\n", "\n        "), size=size, inputs=inputs)


def task(name: str, body: str, **options) -> Task:
    return Task(id=name, source=program(body, **options))


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    return Settings(cache_dir=str(tmp_path_factory.mktemp("cache")), workers=1)


def kinds(first: Task, second: Task, settings: Settings) -> list[str]:
    return [match.kind for match in find([first], [Benchmark("benchmark", (second,))], settings, {})]


@pytest.mark.slow
def test_a_rewritten_task_is_found(settings):
    originals = [
        make_task(("matmul", "gelu", "softmax", "mse_loss"), 96, 64),
        make_task(("add_bias", "layer_norm", "tanh", "amax"), 64, 32),
        *module_tasks.hand_written(),
        *(it for it in rewrites.test_tasks(TASKS) if it.id in ("tests/attention", "tests/mlp", "tests/kl_div")),
    ]
    variants = [variant for original in originals for variant in rewrites.all_of(original)]
    assert {variant.id.partition("#")[2] for variant in variants} == {*rewrites.WAYS, "everything", "functional_form"}
    untraced = {}
    matches = find(variants, [Benchmark("benchmark", tuple(originals))], settings, untraced)
    found = {match.task for match in matches if match.task.partition("#")[0] == match.benchmark_task}
    assert [variant.id for variant in variants if variant.id not in found] == []
    assert not untraced


@pytest.mark.slow
def test_tasks_with_other_operators_are_left_alone(settings):
    compositions = [("relu", "softmax"), ("softmax", "relu"), ("tanh", "sum"), ("tanh", "mean"), ("add_bias", "silu")]
    compositions += [("add_residual", "silu"), ("scale_rows", "silu"), ("mul_gain", "silu"), ("matmul", "silu")]
    tasks = [make_task(ops, 64, 32) for ops in compositions]
    for number, each in enumerate(tasks):
        others = Benchmark("others", (*tasks[:number], *tasks[number + 1 :], *module_tasks.hand_written()))
        assert not list(find([each], [others], settings, {}))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("exact", "z = torch.relu(x)  # first\n\nreturn z.softmax(1) + y"),
        ("ast", "b = torch.relu(x)\nunused = b + 1\na = b.softmax(1)\nreturn y + a"),
        ("graph", "z = F.relu(x)\nz = F.softmax(z, dim=-1)\nz += y\nreturn z"),
    ],
)
def test_the_strongest_kind_is_named(kind, body, settings):
    assert kinds(task("a", "z = torch.relu(x)\nreturn z.softmax(1) + y"), task("b", body), settings) == [kind]


def test_a_small_edit_of_a_long_program_is_a_near_duplicate(settings):
    names = "relu tanh abs exp sin cos sigmoid square sqrt floor".split()
    steps = "\n".join(f"x = torch.{name}(x)" for name in random.Random(0).choices(names, k=40))
    assert kinds(task("a", f"{steps}\nreturn x + y"), task("b", f"{steps}\nreturn x - y"), settings) == ["near"]
    assert jaccard(shingles(program("return x + y"), 3), shingles(program("return torch.tanh(x) @ y.T"), 3)) < 0.5


def test_a_common_place_operator_is_reported_and_not_dropped(settings):
    small, large = task("small", "return torch.relu(x)"), task("large", "return F.relu(x)", size=64)
    [match] = find([small], [Benchmark("benchmark", (large,))], settings, {})
    assert (match.kind, match.operators, match.same_sizes, match.drop) == ("graph", 1, False, False)
    [match] = find([small], [Benchmark("benchmark", (task("b", "return x.relu()"),))], settings, {})
    assert match.same_sizes and match.drop
    strict = settings.model_copy(update={"min_operators": 1})
    assert [match.drop for match in find([small], [Benchmark("benchmark", (large,))], strict, {})] == [True]
    sized = settings.model_copy(update={"sizes": True, "kinds": frozenset({"ast", "graph"})})
    assert not list(find([small], [Benchmark("benchmark", (large,))], sized, {}))


def test_only_the_kinds_that_are_asked_for(settings):
    one, other = task("a", "return torch.relu(x) + y"), task("b", "return y + F.relu(x)", size=64)
    report_only = settings.model_copy(update={"drop": frozenset({"exact"})})
    [match] = find([one], [Benchmark("benchmark", (other,))], report_only, {})
    assert match.kind == "graph" and not match.drop
    assert kinds(one, other, settings.model_copy(update={"kinds": frozenset({"exact", "ast"})})) == []


def test_how_operands_are_spread_is_part_of_the_graph_and_their_sizes_are_not():
    def graph(inputs: str, size: int = 16):
        traced = trace(program("return x * y", size=size, inputs=inputs))
        return traced.labels, traced.edges

    whole, row, column = "torch.randn(4, N)", "torch.randn(N)", "torch.randn(4, 1)"
    assert len({graph(f"{whole}, {other}") for other in (whole, row, column)}) == 3
    assert graph(f"{whole}, {row}") == graph(f"torch.randn(2, 3, N), {row}", size=99)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = x.clone()\nx.add_(y)\nreturn x", "return x + y"),
        ("return x.reshape(-1, 2).view(4, -1) @ y.t()", "return torch.matmul(x, y.transpose(0, 1))"),
        ("return F.linear(x, y, x.new_zeros(4))", "return torch.zeros(4) + x @ y.T"),
        ("z = torch.empty_like(x)\nz.copy_(x.relu())\nreturn z", "return torch.relu(x)"),
        ("return torch.stack([x.relu(), x.relu()])", "z = x.relu()\nreturn torch.stack([z, z])"),
    ],
)
def test_graphs_see_through_the_way_of_writing(one, other, settings):
    only_graphs = settings.model_copy(update={"kinds": frozenset({"graph"})})
    assert kinds(task("a", one), task("b", other), only_graphs) == ["graph"]


def test_a_result_written_into_a_part_is_not_the_whole():
    written, whole = trace(program("x[0] = 1.0\nreturn x.relu()")), trace(program("return x.relu()"))
    assert len(written.labels) > len(whole.labels) and "relu" in written.labels


def test_an_operator_counts_as_one_however_many_it_is_made_of():
    assert trace(program("return F.silu(x)")).operators == trace(program("return F.hardswish(x)")).operators == 1
    assert trace(program("return F.linear(F.silu(x), y) + 1")).operators == 3


def test_the_normalised_program_forgets_names_order_and_dead_code():
    base = normalise(program("a = x + 1\nb = y * 2\nreturn a - b"))
    assert normalise(program("second = 2 * y\nfirst = x + 1\nlost = first\nreturn first - second")) == base
    assert normalise(program("return (x + 1) - (y * 2)")) == base
    assert normalise(program("a = x + 1\nb = y * 2\nreturn b - a")) != base
    assert normalise(program("a = x + 1\na.add_(y)\nreturn a")) != normalise(program("a = x + 1\nreturn a"))
    larger = normalise(program("return (x + 1) - (y * 2)", size=99))
    assert larger.structure == base.structure and larger.sizes != base.sizes


def test_a_size_may_have_two_names():
    def with_sizes(line: str) -> str:
        return program("return x * height + y * width").replace("N = 16", f"N = 16\n{line}")

    together, apart = with_sizes("height = width = 256"), with_sizes("height = 256\nwidth = 256")
    assert normalise(together) == normalise(apart)
    assert normalise(together).sizes != normalise(with_sizes("height = width = 128")).sizes


@pytest.mark.slow
def test_what_cannot_be_traced_is_reported_and_harms_nobody(tmp_path):
    settings = Settings(cache_dir=str(tmp_path), workers=1, timeout_s=10.0)
    bad = {
        "broken": "return x @ y",
        "crash": "import os\nos.abort()",
        "hang": "while True:\n    pass",
        "exit": "raise SystemExit",
        "nothing": "return x",
    }
    tasks = [task("fine", "return torch.relu(x) + y"), *(task(name, body) for name, body in bad.items())]
    tasks.append(Task(id="unparsable", source="def ("))
    untraced = {}
    matches = list(find(tasks, [Benchmark("benchmark", tuple(tasks))], settings, untraced))
    assert {name for _, name in untraced} == {*bad, "unparsable"}
    assert "died" in untraced["train", "crash"] and "time" in untraced["train", "hang"]
    assert [match.task for match in matches] == sorted(
        (match.task for match in matches), key=[it.id for it in tasks].index
    )
    assert {(match.task, match.kind) for match in matches if match.task == match.benchmark_task} >= {
        (it.id, "exact") for it in tasks
    }


def test_data_dependent_programs_are_traced_on_real_tensors():
    assert "relu" in trace(program("return torch.relu(x) if x.sum() > -1e9 else x")).labels


def test_apply_names_what_to_drop_and_writes_why(tmp_path, settings):
    words = [f"decontamination.cache_dir={settings.cache_dir}", "decontamination.known=[]"]
    cfg = compose_config("curate", words).decontamination
    leaked, fine = task("leaked", "return torch.relu(x) + y"), task("fine", "return torch.tanh(x) @ y.T")
    heldout = Benchmark("held-out", (task("theirs", "return y + x.relu()", size=32),))
    dropped, report = decontamination.apply([leaked, fine, leaked], [heldout], cfg, tmp_path)
    assert dropped == {"leaked"} and (report["tasks"], report["matched"], report["dropped"]) == (2, 1, 1)
    [match] = [json.loads(line) for line in (tmp_path / "matches.jsonl").read_text().splitlines()]
    assert (match["task"], match["benchmark_task"], match["drop"]) == ("leaked", "theirs", True)
    assert report == json.loads((tmp_path / "contamination.json").read_text())
    assert [Task.model_validate_json(it) for it in (tmp_path / "contaminated.jsonl").read_text().splitlines()] == [
        leaked,
        leaked,
    ]
    assert "not compared: KernelBench, MultiKernelBench, TritonBench, robust-kbench" in report["notes"]
    [entry] = report["benchmarks"]
    assert entry["matched_by_kind"] == {kind: int(kind == "graph") for kind in KINDS}
    with pytest.raises(UserError, match="two benchmarks are named 'held-out'"):
        decontamination.apply([fine], [heldout, heldout], cfg, tmp_path)
    with pytest.raises(UserError, match="two training tasks with different programs are named 'fine'"):
        decontamination.apply([fine, leaked.model_copy(update={"id": "fine"})], [heldout], cfg, tmp_path)


KNOWN = program("return F.softmax(torch.matmul(x, y.T).relu(), dim=1)", inputs="torch.randn(64, N), torch.randn(64, N)")


@pytest.fixture
def known(tmp_path, monkeypatch, settings):
    """The file of known benchmarks, with one task in it."""
    header = {"torch": torch.__version__, "shingle": 3, "permutations": 128, "revisions": {"KernelBench": None}}
    ((_, fingerprint),) = fingerprint_all([Task(id="1", source=KNOWN)], settings, "fingerprints")
    write_known(tmp_path / "known.gz", header, [("KernelBench", Task(id="1", source=""), fingerprint)])
    monkeypatch.setattr(known_benchmarks, "FILE", tmp_path / "known.gz")
    read_known.cache_clear()
    yield OmegaConf.create({"cache_dir": settings.cache_dir, "workers": 1, "known": ["KernelBench"]})
    read_known.cache_clear()


def test_known_benchmarks_are_compared_without_their_programs(known, tmp_path):
    """A task of one is found by its text, its graph and as a part; what was taken from it on purpose is kept."""
    same = Task(id="same", source=KNOWN)
    own = same.model_copy(update={"id": "own", "origin": "kernelbench"})
    other = task("other", "z = x @ y.T\nreturn torch.softmax(torch.relu(z), 1)", size=24)
    larger = task("larger", "z = torch.tanh(x) @ y.T\nreturn torch.softmax(torch.relu(z), 1) * 2")
    fine = task("fine", "return torch.tanh(x) @ y.T")
    dropped, report = decontamination.apply([same, own, other, larger, fine], [], known, tmp_path)
    matches = [json.loads(line) for line in (tmp_path / "matches.jsonl").read_text().splitlines()]
    assert {match["task"]: match["kind"] for match in matches} == {
        "same": "exact",
        "own": "exact",
        "other": "graph",
        "larger": "part",
    }
    assert dropped == {"same", "other"}
    assert (
        "the training set itself is taken from a known benchmark, and kept: 1 matches with KernelBench"
        in (report["notes"])
    )


def test_the_fingerprints_that_come_with_kernelrl():
    header, benchmarks = read_known()
    assert {benchmark.name for benchmark in benchmarks} == set(Settings().known) == set(header["revisions"])
    for benchmark in benchmarks:
        assert len(benchmark.tasks) == len(benchmark.fingerprints) > 100
        assert not any(task.source for task in benchmark.tasks)
        assert sum(each.traced is not None for each in benchmark.fingerprints) >= 0.8 * len(benchmark.tasks)


def test_tasks_are_read_from_every_format(tmp_path):
    one, other = task("a", "return x + y"), task("b", "return x - y")
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for each in (one, other):
        (folder / f"{each.id}.py").write_text(each.source)
    (folder / "__init__.py").write_text("")
    assert [it.id for it in decontamination.read_tasks(folder.parent)] == ["level1/a", "level1/b"]
    lines = [one.model_dump_json(), json.dumps({"name": "b", "code": other.source})]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    assert decontamination.read_tasks(tmp_path / "tasks.jsonl") == [one, other]
    row = {"task_id": "a", "category": "", "ops": [], "prompt": [], "task": one.model_dump_json()}
    write_table(tmp_path / "tasks_train.parquet", [row], TASK_COLUMNS)
    assert decontamination.read_tasks(tmp_path / "tasks_train.parquet") == [one]
    for name, text, message in [
        ("none", None, "no such file or folder"),
        ("list.txt", "", r"not a \.py, \.jsonl or \.parquet file"),
        ("empty.jsonl", "", "holds no task"),
        ("torn.jsonl", "{", "torn.jsonl: line 1 is not JSON"),
        ("other.jsonl", "{}", "no field source, task, code, reference"),
        ("x.py", "x = 1", "does not define Model"),
    ]:
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=message):
            decontamination.read_tasks(tmp_path / name)


def test_settings_name_what_is_wrong():
    with pytest.raises(UserError, match=r"decontamination.near_threshold=2: Input should be less than or equal to 1"):
        decontamination.read_settings(OmegaConf.create({"near_threshold": 2}))
    defaults = compose_config("curate").decontamination
    assert decontamination.read_settings(defaults).model_dump(exclude={"cache_dir"}) == Settings().model_dump(
        exclude={"cache_dir"}
    )


def run(capsys, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["decontaminate", *words])
    return stopped.value.code, *capsys.readouterr()


def test_the_command(tmp_path, settings, capsys):
    train, clean, bench = (tmp_path / name for name in ("train.jsonl", "clean.jsonl", "bench"))
    leaked, fine = task("leaked", "return torch.relu(x) + y"), task("fine", "return torch.tanh(x) @ y.T")
    train.write_text(f"{leaked.model_dump_json()}\n{fine.model_dump_json()}\n")
    clean.write_text(fine.model_dump_json())
    bench.mkdir()
    (bench / "1_relu_add.py").write_text(program("return y + x.relu()"))
    cache = f"decontamination.cache_dir={settings.cache_dir}"

    code, out, _ = run(capsys, str(train), str(bench), cache, "--output", str(tmp_path / "out"))
    assert code == 1 and "1_relu_add" in out and "graph" in out and "fingerprints" in out
    assert decontamination.read_tasks(tmp_path / "out" / "tasks.jsonl") == [fine]
    code, out, _ = run(capsys, str(clean), str(bench), cache, "--json")
    assert code == 0 and json.loads(out)["matched"] == 0
    code, _, err = run(capsys, str(train))
    assert code == 2 and "training tasks and a benchmark are needed" in err
