"""Curation: what becomes a row, what is written about the rest, and that the same inputs give the same rows."""

import json
import shutil
from collections import Counter
from pathlib import Path

import datasets
import pytest
import yaml

from curated import training_config, triple
from kernelrl.candidate import Completion
from kernelrl.data import curate, sources
from kernelrl.data.build import DROPPED, PROPOSALS, TASKS
from kernelrl.data.manifest import digest_rows
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, SFT_COLUMNS, TASK_COLUMNS, read_table, write_table
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.verification import propose
from kernelrl.errors import UserError
from kernelrl.executor.api import Request, not_known
from kernelrl.records import Ledger, digest, write_json
from kernelrl.runs.preflight import require_all
from kernelrl.task import Task
from kernelrl.verdict import Speedup

SMALL = ["tasks.num_train=5", "tasks.num_heldout=2", "curate.num_triples=3", "curate.num_heldout_triples=1"]


def read_json(path):
    return json.loads(path.read_text())


def dropped(folder):
    return [json.loads(line) for line in (folder / DROPPED).read_text().splitlines()]


@pytest.fixture(scope="module")
def built(tmp_path_factory, executor_cache):
    """A small data set, judged by the real executor."""
    output = tmp_path_factory.mktemp("built")
    cfg = training_config(output, *SMALL, f"executor.cache_dir={executor_cache}")
    return cfg, curate.run(cfg)


def test_only_correct_kernels_become_rows(built):
    cfg, folder = built
    rows = read_table(folder / "sft_train.parquet", SFT_COLUMNS.names)
    assert len(rows) == 3
    for row in rows:
        assert Completion.parse(row["completion"][0]["content"]).source == row["kernel"]
        assert row["verdict"]["status"] == "correct" and row["verdict"]["speedup"] is None
        assert (row["teacher"], row["seed"], row["origin"], row["dialect"]) == ("template", 0, "synthetic", "cpp")
        assert row["reasoning_tokens"] > 10 and row["difficulty"] == "easy" and row["selected_by"] == "correct"
    verdicts = {record.id: record.verdict for record in Ledger(Path(cfg.curate.verified) / "records")}
    assert all(verdicts[row["record"]].correct for row in rows)
    assert (Path(cfg.curate.verified) / "health" / "rank0.json").exists()


def test_no_composition_is_in_both_splits(built):
    for kind in ("tasks", "sft"):
        train, heldout = (
            {tuple(row["ops"]) for row in read_table(built[1] / f"{kind}_{split}.parquet", ["ops"])}
            for split in ("train", "heldout")
        )
        assert train and heldout and not train & heldout


def test_every_task_and_proposal_is_a_row_or_has_a_reason(built):
    cfg, folder = built
    summary, lines = read_json(folder / "summary.json"), dropped(folder)
    tasks = [line for line in lines if line["kind"] == "task"]
    assert summary["tasks_drawn"] == summary["tasks_train"] + summary["tasks_heldout"] + len(tasks)
    assert Counter(line["why"] for line in tasks) == summary["tasks_dropped"]
    proposals = [line for line in lines if line["kind"] == "proposal"]
    assert summary["proposals"] == summary["triples"] + summary["triples_heldout"] + len(proposals)
    assert (summary["triples"], summary["triples_heldout"], summary["tasks_train"]) == (3, 1, 5)
    ids = [record.id for record in Ledger(Path(cfg.curate.verified) / "records")]
    assert len(ids) == len(set(ids)) == summary["proposals"] == sum(summary["proposals_by_status"].values())


def test_the_folder_is_a_data_set_with_a_card(built, tmp_path):
    cfg, folder = built
    triples = datasets.load_dataset(str(folder), cache_dir=str(tmp_path))
    assert {name: split.num_rows for name, split in triples.items()} == {"train": 3, "heldout": 1}
    assert triples["train"].column_names == SFT_COLUMNS.names
    tasks = datasets.load_dataset(str(folder), "tasks", cache_dir=str(tmp_path))
    assert {name: split.num_rows for name, split in tasks.items()} == {"train": 5, "heldout": 2}
    assert tasks["train"].column_names == TASK_COLUMNS.names
    _, front, page = (folder / "README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(front)
    assert (card["license"], card["task_categories"], card["size_categories"]) == (
        "unknown",
        ["text-generation"],
        ["n<1K"],
    )
    assert "cpp" in card["tags"] and "## Contamination" in page
    for plot in ("categories", "reasoning", "dropped"):
        assert f"plots/{plot}.png" in page and (folder / "plots" / f"{plot}.png").stat().st_size > 1000


def test_the_manifest_names_every_file_and_setting(built):
    cfg, folder = built
    manifest = read_json(folder / "manifest.json")
    for name, sha256 in manifest["files"].items():
        assert digest(folder / name) == sha256
    assert manifest["files"].keys() >= {"README.md", "sft_train.parquet", "dropped.jsonl", "plots/categories.png"}
    for name, rows in manifest["rows"].items():
        assert digest_rows(folder / name) == rows
    verification = manifest["settings"]["verification"]
    assert verification["seed"] == 0 and verification["tasks"]["num_train"] == 5 and verification["executor"]["trials"]
    assert manifest["settings"]["selection"]["selection"] == {"name": "all"}
    assert manifest["machines"] and str(folder) not in json.dumps(manifest)


def test_a_finished_folder_stays_and_one_killed_at_the_end_judges_nothing_again(built):
    cfg, folder = built
    before = (folder / "sft_train.parquet").stat().st_mtime_ns
    assert curate.run(cfg) == folder
    assert (folder / "sft_train.parquet").stat().st_mtime_ns == before

    verified = Path(cfg.curate.verified)
    manifest = read_json(folder / "manifest.json")
    ids = [record.id for record in Ledger(verified / "records")]
    for name in (folder / "done.json", verified / "done.json", verified / PROPOSALS):
        name.unlink()
    (verified / "filters.jsonl").open("a").write('{"task_id": "torn')
    curate.run(cfg)
    assert [record.id for record in Ledger(verified / "records")] == ids
    assert read_json(folder / "manifest.json") == manifest


def test_a_second_build_has_the_same_rows(built, tmp_path, executor_cache):
    again = curate.run(training_config(tmp_path, *SMALL, f"executor.cache_dir={executor_cache}"))
    assert read_json(again / "manifest.json") == read_json(built[1] / "manifest.json")


def test_what_the_executor_could_not_judge_is_judged_again(built, tmp_path):
    cfg, folder = built
    again = training_config(tmp_path, *SMALL, f"executor.cache_dir={cfg.executor.cache_dir}")
    ledger = Ledger(Path(again.curate.verified) / "records")
    first, *others = Ledger(Path(cfg.curate.verified) / "records")
    request = Request(task=Task(id=first.task_id, source=""), candidate=None, dialect=first.verdict.dialect)
    lost = not_known(request, "cpu", "executor", "the machine was lost")
    ledger.append([first.model_copy(update={"verdict": lost}), *others])
    curate.run(again)
    judged = [record.verdict.status for record in Ledger(ledger.folder) if record.id == first.id]
    assert judged == ["infrastructure", first.verdict.status]
    assert read_json(Path(again.curate.folder) / "summary.json")["proposals_by_status"].keys() == {"correct"}


def test_a_kernel_without_reasoning_is_no_triple(built, tmp_path):
    cfg, folder = built
    overrides = [f"curate.verified={cfg.curate.verified}", f"executor.cache_dir={tmp_path}"]
    lengths = sorted(row["reasoning_tokens"] for row in read_table(folder / "sft_train.parquet", ["reasoning_tokens"]))
    other = training_config(tmp_path, *SMALL, *overrides, f"curate.min_reasoning={lengths[-1]}")
    rows = read_table(curate.run(other) / "sft_train.parquet", ["reasoning_tokens"])
    assert [row["reasoning_tokens"] for row in rows] == [length for length in lengths if length == lengths[-1]]
    assert {"reasoning too short"} <= {line["why"] for line in dropped(Path(other.curate.folder))}


def test_another_selection_judges_nothing_again(built, tmp_path):
    cfg, folder = built
    overrides = [f"curate.verified={cfg.curate.verified}", f"executor.cache_dir={tmp_path}"]
    other = training_config(tmp_path, *SMALL, *overrides, "selection=shortest", "selection.num_rows=2")
    before = digest(Path(cfg.curate.verified) / "records" / "rank0.jsonl")
    rows = read_table(curate.run(other) / "sft_train.parquet", ["reasoning_tokens", "selected_by"])
    all_rows = read_table(folder / "sft_train.parquet", ["reasoning_tokens"])
    lengths = sorted(row["reasoning_tokens"] for row in all_rows)
    assert sorted(row["reasoning_tokens"] for row in rows) == lengths[:2]
    assert {row["selected_by"] for row in rows} == {"shortest"}
    assert digest(Path(cfg.curate.verified) / "records" / "rank0.jsonl") == before
    assert [line for line in dropped(Path(other.curate.folder)) if line["why"] == "not selected"]

    third = training_config(tmp_path, *SMALL, *overrides, "selection=capped")
    with pytest.raises(UserError, match=r"other settings \(selection\..*choose another curate.folder="):
        curate.run(third)


def test_a_selection_that_needs_speedups_is_refused_before_anything_is_written(tmp_path):
    cfg = training_config(tmp_path / "out", "selection=full")
    for refuse in (curate.run, lambda cfg: require_all(cfg, ["curate"])):
        with pytest.raises(UserError, match=r"selection full needs speedups, and curate.timing=false measures none"):
            refuse(cfg)
    assert not (tmp_path / "out").exists()


def test_the_models_own_tokenizer_must_exist_already(tmp_path):
    with pytest.raises(
        UserError, match=r"model=tiny makes its tokenizer from the data set; use curate.tokenizer=words"
    ):
        curate.run(training_config(tmp_path, "curate.tokenizer=model"))


def test_tasks_without_triples(tmp_path):
    overrides = ["tasks.num_train=2", "tasks.num_heldout=1", "curate.num_triples=0", "curate.num_heldout_triples=0"]
    folder = curate.run(training_config(tmp_path, *overrides))
    tasks = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "hub"))
    assert {name: split.num_rows for name, split in tasks.items()} == {"train": 2, "heldout": 1}
    assert "none is in this set" in (folder / "README.md").read_text()


SPEEDUPS = {"brief": (1.0, 2.0, 8.0), "long": (2.0, 1.0, 1.5)}
"""Of the two kernels of the first, second and third task; the others have none."""


@pytest.fixture
def verified(tmp_path):
    """The folder of a verification that has finished, as if kernels had been timed: two for each of six tasks."""
    cfg = training_config(tmp_path, "curate.timing=true", "tasks.num_train=6")
    folder = Path(cfg.curate.verified)
    split = sources.load(cfg.tasks)
    tasks = split.train[:6]
    rows = []
    for index, task in enumerate(tasks):
        for reasoning, speedups in SPEEDUPS.items():
            proposal = Proposal(
                "why " * (3000 if reasoning == "brief" else 6000), f"class ModelNew: {index}{reasoning}\n"
            )
            median = speedups[index] if index < len(speedups) else None
            speedup = median and Speedup(median=median, low=median * 0.9, high=median * 1.1, pairs=7)
            rows.append({"split": "train"} | triple(task, proposal, "cpp", speedup=speedup))
    drawn = [{"split": "train", "task": task.model_dump_json()} for task in tasks]
    drawn.append({"split": "heldout", "task": split.heldout[0].model_dump_json()})
    write_table(folder / TASKS, drawn, DRAWN_COLUMNS)
    write_table(folder / PROPOSALS, rows, PROPOSAL_COLUMNS)
    (folder / DROPPED).touch()
    figures = {"proposals": len(rows), "proposals_by_status": {"correct": len(rows)}, "machines": ["here"]}
    write_json(folder / "done.json", figures | {"tasks_drawn": 7, "tasks_dropped": {}, "tasks_heldout": 1})
    return folder


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("full", {"shortest_and_fastest": 2, "speedup": 0, "single_operator": 0}),
        ("random", {"random": 2}),
        ("longest", {"longest": 2}),
        ("shortest", {"shortest": 2}),
        ("speedup", {"speedup": 2}),
        ("best_of_n", {"best": 3}),
    ],
)
def test_every_ablation_of_one_verification(verified, tmp_path, selection, expected):
    overrides = ["curate.timing=true", "tasks.num_train=6", f"selection={selection}"]
    folder = curate.run(training_config(tmp_path, *overrides))
    summary = read_json(folder / "summary.json")
    assert summary["selected_by"] == expected
    rows = read_table(folder / "sft_train.parquet", ["verdict", "selected_by", "difficulty"])
    assert len(rows) == summary["triples"] == sum(expected.values())
    assert {row["difficulty"] for row in rows} == {"medium"}  # 3,000 and 6,000 tokens: 4,500 on average
    assert (folder / "plots" / "speedups.png").exists() == any(row["verdict"]["speedup"] for row in rows)


def test_a_contamination_report_is_taken_along(verified, tmp_path):
    report = {
        "tasks": 6,
        "benchmarks": [{"name": "heldout", "tasks": 1, "matched_by_kind": {"exact": 2, "graph": 1}, "dropped": 3}],
        "not_compared": ["KernelBench"],
    }
    write_json(verified / "contamination.json", report)
    folder = curate.run(training_config(tmp_path, "curate.timing=true", "tasks.num_train=6"))
    assert read_json(folder / "contamination.json") == report
    page = (folder / "README.md").read_text()
    assert "| heldout | 1 | 2 | 1 | 3 |" in page and "Not compared with: KernelBench." in page


def test_several_teachers_and_dialects_are_asked_task_by_task():
    class Scripted(Teacher):
        dialects = frozenset({"cpp", "triton"})

        def __init__(self, name):
            self.name = name

        def propose(self, task, dialect):
            return [Proposal(f"{self.name} {number}", dialect) for number in range(2)]

    tasks = sources.load(training_config(Path()).tasks).train[:2]
    asked = [(Scripted("a"), "cpp"), (Scripted("a"), "triton"), (Scripted("b"), "cpp")]
    found = [(each.task.id, each.teacher, each.dialect, each.proposal.reasoning) for each in propose(tasks, asked)]
    assert found == [
        (task.id, teacher.name, dialect, f"{teacher.name} {number}")
        for task in tasks
        for teacher, dialect in asked
        for number in range(2)
    ]


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_rows(tmp_path, server):
    overrides = ["tasks.num_train=14", "tasks.num_heldout=3", "curate.num_triples=20", "curate.num_heldout_triples=4"]
    cfg = training_config(tmp_path / "killed", *overrides)
    verified, folder, output = Path(cfg.curate.verified), Path(cfg.curate.folder), tmp_path / "output"

    def lines(path):
        return path.read_bytes().count(b"\n") if path.exists() else 0

    moments = [
        lambda: lines(verified / "filters.jsonl") >= 3,
        lambda: lines(verified / "records" / "rank0.jsonl") >= 1,
        lambda: lines(verified / "records" / "rank0.jsonl") >= 9,
        lambda: (verified / "done.json").exists(),
        lambda: (folder / "sft_train.parquet").exists(),
    ]
    command = ("curated:run", "kernelrl.data.curate", cfg.output_dir, overrides)
    for moment in moments:
        server.kill_at(moment, *command, folder=tmp_path, output=output)
    assert server.start(*command, folder=tmp_path, output=output).wait() == 0, output.read_text()
    ids = [record.id for record in Ledger(verified / "records")]
    assert len(ids) == len(set(ids))

    whole = training_config(tmp_path / "whole", *overrides)
    manifest = read_json(curate.run(whole) / "manifest.json")
    assert read_json(folder / "manifest.json") == manifest
    shutil.rmtree(whole.curate.folder)  # selection alone gives them too
    assert read_json(curate.run(whole) / "manifest.json") == manifest
