"""`kernelrl compare` and the format of results: who is better on the same tasks, and when that is certain."""

import json
from itertools import product

import jsonschema
import numpy as np
import pytest

from kernelrl.commands import compare
from kernelrl.errors import UserError
from kernelrl.eval import paired
from kernelrl.eval.figure import Figure, Settings
from kernelrl.eval.metrics import summarize
from kernelrl.eval.results import SCHEMA, TaskEntry, make_schema, read_results
from kernelrl.records import Record, write_json
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict

TASKS = [Task(id=f"t{index}", source=f"# {index}", category="softmax", level=1) for index in range(12)]
SETTINGS = Settings(k=(1,), fast_p=(0, 1), bootstrap=200, seed=0)


def records(solved, speedup=1.5, samples=2):
    """Samples of every task, of which those of the tasks below `solved` are correct."""
    measured = Speedup(median=speedup, low=speedup, high=speedup, pairs=7)
    return [
        Record.of(
            id=f"eval/p/{task.id}/{sample}",
            policy="p",
            prompt="",
            completion="",
            reward=float(right),
            verdict=Verdict(
                task_id=task.id,
                candidate="0",
                status="correct" if right else "incorrect",
                stage="correct" if right else "ran",
                dialect="cpp",
                device="cpu",
                speedup=measured if right else None,
            ),
        )
        for index, task in enumerate(TASKS)
        for right in [index < solved]
        for sample in range(samples)
    ]


def content(policies, tasks=TASKS):
    """The content of `results.json` for policies: name -> records."""
    summaries = {
        name: {"policy": name, "folder": "f", **summarize(samples, tasks, SETTINGS)}
        for name, samples in policies.items()
    }
    entries = [{name: getattr(task, name) for name in TaskEntry.model_fields} for task in tasks]
    return {"schema_version": 1, "name": "r", "tasks": entries, "policies": summaries, "comparisons": []}


@pytest.fixture
def results(tmp_path):
    """Writes `NAME.json` with one policy, or several."""

    def write(name, policies, tasks=TASKS):
        write_json(tmp_path / f"{name}.json", content(policies, tasks))
        return tmp_path / f"{name}.json"

    return write


def test_a_policy_that_is_significantly_worse_fails_the_command(kernelrl, results):
    good, bad = results("good", {"a": records(12)}), results("bad", {"b": records(2)})
    worse = kernelrl("compare", good, bad)
    assert worse.returncode == 1 and "worse" in worse.stdout
    better = kernelrl("compare", bad, good)
    assert better.returncode == 0 and "better" in better.stdout
    assert kernelrl("compare", good, results("same", {"c": records(12)})).returncode == 0


def test_a_small_difference_is_not_significant(kernelrl, results):
    assert kernelrl("compare", results("a", {"a": records(12)}), results("b", {"b": records(11)})).returncode == 0


def test_speedups_are_compared_over_the_tasks_that_both_solve(kernelrl, results):
    fast, slow = results("fast", {"a": records(10, 3.0)}), results("slow", {"b": records(12, 1.2)})
    done = kernelrl("compare", fast, slow, "--json")
    (row,) = [row for row in json.loads(done.stdout)["rows"] if row["figure"] == "speedup"]
    assert done.returncode == 1
    assert row["change"]["value"] == pytest.approx(1.2 / 3.0)
    assert row["p"] == pytest.approx(2 / 2**10), "ten tasks, all with the same sign: the exact test"


def test_who_is_better_is_decided_by_what_is_tested(kernelrl, results):
    """On eleven tasks better, on the other one equal; the share of all samples falls from 8 of 19 to 12 of 89."""

    def of(tasks, samples):
        return [record for record in samples if (record.task_id == "t0") == (tasks == "first")]

    before = [*of("first", records(1, samples=8)), *of("others", records(0, samples=1))]
    seven_wrong = [record for record in of("others", records(0, samples=8)) if not record.id.endswith("/0")]
    after = [*of("first", records(1, samples=1)), *of("others", records(12, samples=1)), *seven_wrong]
    done = kernelrl("compare", results("before", {"a": before}), results("after", {"b": after}), "--json")
    (row,) = [row for row in json.loads(done.stdout)["rows"] if row["figure"] == "correct"]
    assert row["change"]["value"] == pytest.approx(11 / 12 / 8), "not 12 / 89 - 8 / 19"
    assert row["p"] == pytest.approx(2 / 2**11)
    assert done.returncode == 0


def test_tasks_of_one_program_stay_apart(results):
    """As those of `surge`, which differ in the kernel that they show."""
    twins = [Task(id=f"t{index}", source="# the same") for index in range(4)]
    some, none = (results(name, {name: records(solved)[:8]}, twins) for name, solved in (("some", 3), ("none", 0)))
    contenders = [
        paired.Contender(path.stem, (found := read_results(path)), found.policies[path.stem]) for path in (none, some)
    ]
    (row,) = paired.compare(contenders, ["correct"], SETTINGS)
    assert len(paired.shared_tasks(contenders)) == 4 and row.change["value"] == pytest.approx(0.75)


def test_results_on_tasks_of_one_program_are_on_the_same_tasks(results, capsys):
    twins = [Task(id=f"t{index}", source="# the same") for index in range(4)]
    paths = [str(results(name, {name: records(solved)[:8]}, twins)) for name, solved in (("some", 3), ("none", 0))]
    compare.main(paths)
    assert "over 4 tasks" in capsys.readouterr().out


def test_cases_of_one_program_are_tested_as_one(results):
    """Four programs lost and none won, each in five cases: a p-value of 1/8, not of 20 tasks lost."""
    tasks = [
        Task(id=f"{program}/{case}", source=f"# {program}/{case}", case_of=program)
        for program in "abcdefgh"
        for case in range(5)
    ]

    def sampled(solved):
        (one,) = records(1, samples=1)[:1]
        (other,) = records(0, samples=1)[:1]
        return [
            (one if task.case_of in solved else other).model_copy(
                update={"id": f"eval/p/{task.id}/0", "task_id": task.id}
            )
            for task in tasks
        ]

    paths = [results(name, {name: sampled(solved)}, tasks) for name, solved in (("all", "abcdefgh"), ("half", "abcd"))]
    contenders = [
        paired.Contender(path.stem, (found := read_results(path)), found.policies[path.stem]) for path in paths
    ]
    (row,) = paired.compare(contenders, ["correct"], SETTINGS)
    assert row.p == pytest.approx(1 / 8) and row.change["value"] == pytest.approx(-0.5)


def test_p_values_are_corrected_for_all_that_is_tested(results):
    contenders = [
        paired.Contender(name, (found := read_results(results(name, {"p": samples}))), found.policies["p"])
        for name, samples in (("a", records(12)), ("b", records(6)), ("c", records(12)))
    ]
    rows = paired.compare(contenders, ["correct", "fast_1"], SETTINGS)
    assert [(row.figure, row.contender) for row in rows] == list(product(["correct", "fast_1"], ["b", "c"]))
    smallest = 2 / 2**6
    assert [row.p for row in rows] == pytest.approx([smallest, 1, smallest, 1])
    assert [row.p_holm for row in rows] == pytest.approx([4 * smallest, 1, 4 * smallest, 1])


def test_the_test_tries_all_signs():
    """Differences 3, 1, -1 of three tasks: of the eight choices of signs, two have a mean as large, one each way."""
    after, before = (Figure(np.array(values, dtype=float), np.ones(3)) for values in ([3, 2, 0], [0, 1, 1]))
    signed = [abs(sum(s * d for s, d in zip(signs, (3, 1, -1), strict=True))) for signs in product((1, -1), repeat=3)]
    assert paired.sign_flip_p(after, before, seed=0) == pytest.approx(sum(total >= 3 for total in signed) / 8)
    assert paired.sign_flip_p(after, Figure(np.zeros(3), np.array([1.0, 0, 0])), seed=0) is None, "one task in common"


def test_other_tasks_are_refused_or_the_overlap_is_said(kernelrl, results):
    whole, part = results("whole", {"a": records(12)}), results("part", {"b": records(2)}, TASKS[:9])
    refused = kernelrl("compare", whole, part)
    assert refused.returncode == 2
    assert "not the same tasks: 9 in common, of a 12, b 9; --overlap" in refused.stderr
    done = kernelrl("compare", whole, part, "--overlap")
    assert "over the 9 tasks in common (of up to 12)" in done.stdout and done.returncode == 1
    other = results("other", {"c": records(2)}, [Task(id="t0", source="# x")])
    assert "have no task in common" in kernelrl("compare", whole, other, "--overlap").stderr


def test_results_of_the_first_tasks_alone_are_refused_unless_the_overlap_is_said(kernelrl, results):
    whole, part = (results(name, {name: records(2)}, TASKS[:9]) for name in ("whole", "part"))
    part.write_text(json.dumps(json.loads(part.read_text()) | {"partial": {"num": 9, "of": 12}}))
    refused = kernelrl("compare", whole, part)
    assert refused.returncode == 2
    assert "part is partial: the first 9 of 12 tasks (eval.limit); --overlap" in refused.stderr
    assert kernelrl("compare", whole, part, "--overlap").returncode == 0


def test_circumstances_that_differ_are_said(results, capsys):
    """On another machine speedups are others, and with more samples pass@k is of others."""
    paths = [results(name, {name: records(12, samples=samples)}) for name, samples in (("a", 2), ("b", 2), ("c", 3))]
    for path, machine, dialect in zip(paths, ("x", "x", "y"), ("cpp", "triton", "cpp"), strict=True):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"machine": machine, "dialect": dialect}))
    assert compare.main([*map(str, paths), "--json"]) == 0
    said = capsys.readouterr()
    assert [line.removeprefix("WARNING").strip() for line in said.err.splitlines()] == [
        "the machine differs: a: x; b: x; c: y",
        "the dialect differs: a: cpp; b: triton; c: cpp",
        "the number of samples of a task differs: a: 2; b: 2; c: 3",
    ]
    assert json.loads(said.out)["baseline"] == "a", "one JSON object and nothing else"
    assert compare.main([str(paths[0]), str(paths[0]).replace("a.json", "./a.json")]) == 0
    assert not capsys.readouterr().err


def write_with(path, name, **circumstances):
    write_json(path, content({name: records(6)}) | circumstances)
    return str(path)


def warnings(capsys, *words):
    assert compare.main(list(words)) == 0
    return [line.removeprefix("WARNING").strip() for line in capsys.readouterr().err.splitlines()]


def test_other_ways_of_judging_and_sampling_are_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    executor = {"oracle": "float64", "timing": True, "min_pairs": 7}
    sampling = {"temperature": 0.8, "top_p": 1.0, "max_new_tokens": 512, "samples": 2, "policies": {}}
    common = {"executor": executor, "eval": sampling, "version": "1", "reward": "kernelrl"}
    a = write_with(tmp_path / "a.json", "a", **common)
    same = write_with(tmp_path / "same.json", "same", **common | {"reward": "rule"})
    assert not warnings(capsys, a, same), "the reward is not among the figures"
    assert warnings(capsys, a, same, "--figures", "correct,reward") == ["the reward differs: a: kernelrl; same: rule"]
    other = {
        "executor": executor | {"oracle": "native", "min_pairs": 15},
        "eval": sampling | {"temperature": 0.2},
        "version": "2",
    }
    assert warnings(capsys, a, write_with(tmp_path / "b.json", "b", **common | other)) == [
        "the sampling differs: a: temperature=0.8; b: temperature=0.2",
        "the executor differs: a: min_pairs=7, oracle=float64; b: min_pairs=15, oracle=native",
        "the version of kernelrl differs: a: 1; b: 2",
    ]


def test_a_policy_of_its_own_settings_is_known_by_them(tmp_path, capsys):
    sampling = {"temperature": 0.8, "top_p": 1.0, "max_new_tokens": 512}
    a = write_with(tmp_path / "a.json", "a", eval=sampling | {"policies": {"a": "some/folder"}})
    node = {"backend": "endpoint", "model": "m", "temperature": 1.0}
    own = write_with(tmp_path / "own.json", "own", eval=sampling | {"policies": {"own": node}})
    assert warnings(capsys, a, own) == ["the sampling differs: a: temperature=0.8; own: temperature=1.0"]
    kernels = {"backend": "kernels", "folder": "f"}
    ready = write_with(tmp_path / "r.json", "r", eval={"temperature": 0.1, "policies": {"r": kernels}})
    assert not warnings(capsys, a, ready), "nobody sampled these"


def test_results_that_do_not_say_how_they_were_judged_are_not_known_to_differ(tmp_path, capsys):
    new = write_with(tmp_path / "new.json", "new", executor={"oracle": "float64", "added": 1}, version="1")
    assert not warnings(capsys, write_with(tmp_path / "old.json", "old"), new)
    before = write_with(tmp_path / "before.json", "before", executor={"oracle": "float64"})
    assert not warnings(capsys, before, new), "a setting that only one of them knows"


def test_the_correction_is_for_the_tests_that_were_made(results, capsys):
    """Speedups of nobody's right kernels are not tested."""
    none, some = results("none", {"a": records(0)}), results("some", {"b": records(12)})
    assert compare.main([str(none), str(some), "--figures", "correct,speedup"]) == 0
    assert "corrected for 1" in " ".join(capsys.readouterr().out.split())


def test_policies_of_one_file(kernelrl, results):
    both = results("both", {"base": records(0), "grpo": records(12)})
    assert "grpo" in kernelrl("compare", both).stdout
    assert kernelrl("compare", f"{both}:grpo", f"{both}:base").returncode == 1
    assert "no policy 'sft'; it has base, grpo" in kernelrl("compare", f"{both}:sft", both).stderr
    assert f"which of its policies? {both}:base" in kernelrl("compare", both, both).stderr
    assert "give another one" in kernelrl("compare", results("one", {"a": records(3)})).stderr
    assert "no figure 'x'; it has parsed" in kernelrl("compare", both, "--figures", "x").stderr


def test_the_schema_is_that_of_the_model_and_fits_results():
    schema = json.loads(SCHEMA.read_text())
    assert schema == make_schema(), "write it anew: kernelrl.eval.results.make_schema"
    jsonschema.validate(content({"base": records(3)}), schema)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version 2; this version of kernelrl reads 1"),
        ({"schema_version": None}, "has no schema_version: it is of an earlier version"),
        ({"tasks": 3}, "tasks: Input should be a valid list"),
    ],
)
def test_results_of_another_version_or_damaged_are_one_line(tmp_path, change, message):
    file = tmp_path / "results.json"
    write_json(file, content({"a": records(1)}) | change)
    with pytest.raises(UserError, match=message):
        read_results(tmp_path)
    file.write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        read_results(file)
    file.unlink()
    with pytest.raises(UserError, match="no such file; kernelrl eval writes it"):
        read_results(file)
