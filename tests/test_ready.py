"""A folder of ready kernels is evaluated by the same command as a model."""

import json

import pytest

from conftest import KERNELS, REFERENCE
from kernelrl.candidate import Completion
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.eval.ready import ReadyKernels, ReadySettings
from kernelrl.records import Ledger
from kernelrl.task import Task

pytestmark = pytest.mark.slow

TASKS = [Task(id=id, source=REFERENCE, category="activation", level=1) for id in ("relu/one", "relu/two", "none")]


@pytest.fixture
def folder(tmp_path):
    for name, kernel in {"relu/one.py": "right", "relu/two/0.py": "wrong", "relu/two/1.py": "right"}.items():
        path = tmp_path / "kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KERNELS[kernel])
    rows = [
        {"task_id": task.id, "prompt": [{"role": "user", "content": task.source}], "task": task.model_dump_json()}
        for task in TASKS
    ]
    write_table(tmp_path / "tasks.parquet", rows, TASK_COLUMNS)
    return tmp_path / "kernels"


def evaluate(kernelrl, folder, cache, *overrides):
    return kernelrl(
        "eval",
        "output_dir=run",
        "tracker=none",
        f"eval.tasks={folder.parent}/tasks.parquet",
        *(f"~eval.policies.{name}" for name in ("base", "sft", "grpo")),
        f"+eval.policies.mine={{backend:kernels,folder:{folder}}}",
        "eval.samples=2",
        "eval.k=[1,2]",
        "executor.timing=false",
        f"executor.cache_dir={cache}",
        *overrides,
    )


def test_kernels_of_a_folder_are_judged_like_samples(kernelrl, folder, executor_cache, tmp_path):
    done = evaluate(kernelrl, folder, executor_cache)
    assert done.returncode == 0, done.stderr
    assert "no kernel for 1 of 3 tasks, e.g. none" in done.stderr
    statuses = {record.id: record.verdict.status for record in Ledger(tmp_path / "run" / "eval" / "mine" / "records")}
    assert statuses == {
        "eval/mine/relu/one/0": "correct",
        "eval/mine/relu/one/1": "illegal",  # there is no such file
        "eval/mine/relu/two/0": "incorrect",
        "eval/mine/relu/two/1": "correct",
        "eval/mine/none/0": "illegal",
        "eval/mine/none/1": "illegal",
    }
    figures = json.loads((tmp_path / "run" / "results.json").read_text())["policies"]["mine"]["figures"]
    assert figures["pass@1"]["value"] == pytest.approx(1 / 3) and figures["pass@2"]["value"] == pytest.approx(2 / 3)
    (folder / "none.py").write_text(KERNELS["right"])
    changed = evaluate(kernelrl, folder, executor_cache)
    assert changed.returncode == 2 and "policy" in changed.stderr, "other kernels are another evaluation"


def test_records_are_judged_anew(kernelrl, folder, executor_cache, tmp_path):
    """One verdict of the first evaluation is wrong, as if another machine had made it."""
    assert evaluate(kernelrl, folder, executor_cache).returncode == 0
    ledger = Ledger(tmp_path / "run" / "eval" / "mine" / "records")
    records = list(ledger)
    ledger.path.unlink()
    wrong = {"status": "incorrect", "stage": "ran", "machine": "another"}
    ledger.append(
        [
            each.model_copy(update={"verdict": each.verdict.model_copy(update=wrong)}) if each.verdict.correct else each
            for each in records
        ][:1]
        + records[1:]
    )
    again = ("eval", "rejudge=run", "tracker=none", "executor.timing=false", f"executor.cache_dir={executor_cache}")
    assert "choose another one for the new verdicts" in kernelrl(*again, "output_dir=run").stderr
    done = kernelrl(*again, "output_dir=again")
    assert done.returncode == 0, done.stderr
    assert "1 incorrect → correct" in done.stdout
    results = json.loads((tmp_path / "again" / "results.json").read_text())
    change = results["rejudged"]["mine"]
    assert change["samples"] == 6 and change["transitions"] == {"incorrect → correct": 1}
    assert change["changed"] == [{"id": "eval/mine/relu/one/0", "before": "incorrect", "after": "correct"}]
    assert results["policies"]["mine"]["figures"]["correct"]["value"] == pytest.approx(1 / 3)
    limited = evaluate(kernelrl, folder, executor_cache, "output_dir=some", "eval.limit=2")
    assert limited.returncode == 0, limited.stderr
    done = kernelrl(*again, "rejudge=some", "output_dir=some-again")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "some-again" / "results.json").read_text())["partial"] == {"num": 2, "of": 3}
    assert "has no results.json" in kernelrl("eval", "rejudge=nowhere", "output_dir=x").stderr


def test_a_folder_that_cannot_be_used_is_one_line(folder):
    with pytest.raises(UserError, match="no such folder"):
        ReadyKernels(ReadySettings(backend="kernels", folder=folder / "x"), ["a"], 1, "eval.policies.mine")
    with pytest.raises(
        UserError, match=r"no kernel for any of 1 tasks; that of the first one is looked for in a.py and"
    ):
        ReadyKernels(ReadySettings(backend="kernels", folder=folder), ["a"], 1, "eval.policies.mine")


def test_samples_that_no_task_has_are_not_called_failures(folder):
    (folder / "single.py").write_text("class ModelNew: ...")
    with pytest.raises(UserError, match=r"at most 1 of the 8 samples of a task, .* give eval.samples=1 and"):
        ReadyKernels(ReadySettings(backend="kernels", folder=folder), ["single", "none"], 8, "eval.policies.mine")


def test_kernels_may_hold_fences(folder):
    source = 'class ModelNew:\n    """\n    ```python\n    class ModelNew: ...\n    ```\n    """\n'
    (folder / "odd.py").write_text(source)
    answer = ReadyKernels(ReadySettings(backend="kernels", folder=folder), ["odd"], 1, "").answer("odd", 0)
    assert Completion.parse(answer.text).source.strip() == source.strip()
