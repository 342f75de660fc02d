"""Curation: what becomes a row, what is written about the rest, and that the same inputs give the same rows."""

import json
import shutil
from collections import Counter, defaultdict
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import datasets
import pytest
import yaml
from omegaconf import OmegaConf

from chat_server import answer
from curated import training_config, triple
from executor_cases import wait_for
from kernelrl.candidate import Completion
from kernelrl.data import curate, sources
from kernelrl.data.build import DROPPED, PROPOSALS, TASKS
from kernelrl.data.manifest import digest_rows
from kernelrl.data.preferences import labels, pairs, refinements
from kernelrl.data.revisions import require_same
from kernelrl.data.shards import merge
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, SFT_COLUMNS, TASK_COLUMNS, read_table, write_table
from kernelrl.data.teachers import Proposal, Teacher, make_teacher
from kernelrl.data.verification import AHEAD, Verifier, propose
from kernelrl.errors import InfrastructureError, UserError
from kernelrl.executor.api import Request, not_known
from kernelrl.records import Ledger, Record, digest, write_json
from kernelrl.runs.preflight import require_all
from kernelrl.strategies.refine import AGAIN
from kernelrl.task import Task
from kernelrl.verdict import Speedup, TrialError, Verdict

HERE = {"dialect": "cpp", "device": "cpu", "machine": "here"}
SMALL = ["tasks.num_train=5", "tasks.num_heldout=2", "curate.num_triples=3", "curate.num_heldout_triples=1"]


def read_json(path):
    return json.loads(path.read_text())


def dropped(folder):
    return [json.loads(line) for line in (folder / DROPPED).read_text().splitlines()]


@pytest.fixture(scope="module", autouse=True)
def _kept_executor(kept_executor):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curate, "make_executor", kept_executor)
        yield


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
    written = {row["record"] for row in read_table(Path(cfg.curate.verified) / PROPOSALS, ["record"])}
    assert len(ids) == len(set(ids)) and written <= set(ids)  # some more were under way when there were enough
    assert len(written) == summary["proposals"] == sum(summary["proposals_by_status"].values())


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
    assert manifest["settings"]["selection"]["selection"] == {"name": "all", "levels": "best"}
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_finished_stage_asks_again_what_got_no_answer(built, tmp_path, serve):
    """A run that ends with some questions unanswered opens again; with too many it does not end."""
    kernel = make_teacher(OmegaConf.create({"name": "template"}), "cpp")
    verified = Path(built[0].curate.verified)
    tasks = [Task.model_validate_json(row["task"]) for row in read_table(verified / TASKS, ["task"])[:5]]
    *told, last = [answer(kernel.propose(task, "cpp")[0].completion()) for task in tasks]
    server = serve(*told, (500, "{}"))

    def config(**changes):
        fields = {"base_url": server.url, "model": "m", "samples": 1, "retries": 0, "concurrency": 1, "label": None}
        fields |= {"cache_dir": tmp_path / "answers", "style": "short"}
        teacher = [f"teacher.{key}={'null' if value is None else value}" for key, value in fields.items()]
        wanted = [*SMALL[:2], "curate.num_triples=null", "curate.num_heldout_triples=0"]
        wanted.append(f"executor.cache_dir={built[0].executor.cache_dir}")
        return training_config(tmp_path, "teacher=llm", *teacher, *wanted, *(f"{k}={v}" for k, v in changes.items()))

    with pytest.raises(InfrastructureError, match=r"1 of 5 questions to teachers have no answer: 1 HTTP 500"):
        curate.run(config())
    few = {"curate.max_failed": 0.5}
    server.script = [(500, "{}")]
    row = read_table(curate.run(config(**few)) / "sft_train.parquet", SFT_COLUMNS.names)[0]
    before = (tmp_path / "data" / "sft_train.parquet").stat().st_mtime_ns
    proposals = tmp_path / "verified" / PROPOSALS
    assert len(read_table(proposals, ["kernel"])) == 4
    assert (row["teacher"], row["model"], row["finish"], row["prompt_tokens"]) == ("llm: m", "m", "stop", 1000)
    assert json.loads(row["request"])["seed"] == 0 and row["kernel_level"] is None
    figures = read_json(tmp_path / "verified" / "done.json")
    assert (figures["questions"], figures["unanswered"]) == (5, 1)

    asked = len(server.requests)
    curate.run(config(**few | {"curate.reopen": "false"}))
    assert len(server.requests) == asked
    server.script = [last]
    curate.run(config(**few))
    assert len(read_table(proposals, ["kernel"])) == 5
    assert (tmp_path / "data" / "sft_train.parquet").stat().st_mtime_ns > before
    assert len(server.requests) == asked + 1 and read_json(tmp_path / "verified" / "done.json")["unanswered"] == 0
    curate.run(config(**few))
    assert len(server.requests) == asked + 1


def test_two_teachers_of_one_name_are_refused(tmp_path):
    cfg = training_config(tmp_path, "teacher=llm", "teacher.model=m")
    teacher = OmegaConf.to_container(cfg.teacher, resolve=True)
    cfg.curate.teachers = [{"teacher": teacher, "dialects": ["cpp"]} for _ in range(2)]
    with pytest.raises(UserError, match=r"2 are called 'llm: m' in cpp; give each a label of its own"):
        curate.make_teachers(cfg)
    cfg.curate.teachers[1].teacher.label = "second"
    assert [teacher.name for teacher, _ in curate.make_teachers(cfg)] == ["llm: m", "second"]


def test_a_kernel_without_reasoning_is_no_triple(built, tmp_path):
    cfg, folder = built
    overrides = [f"curate.verified={cfg.curate.verified}", f"executor.cache_dir={tmp_path}"]
    lengths = sorted(row["reasoning_tokens"] for row in read_table(folder / "sft_train.parquet", ["reasoning_tokens"]))
    other = training_config(tmp_path, *SMALL, *overrides, f"curate.min_reasoning={lengths[-1]}")
    rows = read_table(curate.run(other) / "sft_train.parquet", ["reasoning_tokens"])
    assert rows and all(row["reasoning_tokens"] >= lengths[-1] for row in rows)
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


SIDES = ("chosen", "rejected")
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


def test_preference_pairs_are_told_apart_by_verdict_speed_or_level(tmp_path):
    tasks = {name: Task(id=name, source="x = 1\n") for name in ("failed", "slow", "near", "level")}

    def row(name, text, level=None, **verdict):
        return {"split": "train"} | triple(
            tasks[name], Proposal("why", f"class ModelNew: {text}\n", level), "cpp", **verdict
        )

    def timed(low, high):
        return Speedup(median=(low + high) / 2, low=low, high=high, pairs=7)

    rows = [row("failed", "good"), row("failed", "bad", status="incorrect", stage="ran")]
    rows += [row("failed", "lost", status="infrastructure", stage="none", fault="executor")]
    rows += [row("slow", "slow", speedup=timed(0.9, 1.1)), row("slow", "fast", speedup=timed(2.0, 2.2))]
    rows += [row("near", "one", speedup=timed(0.9, 1.1)), row("near", "two", speedup=timed(1.0, 1.2))]
    rows += [row("level", "fused", "fused"), row("level", "naive", "naive")]
    write_table(tmp_path / PROPOSALS, rows, PROPOSAL_COLUMNS)
    found = [
        (
            each["task_id"],
            each["why"],
            *(Completion.parse(each[side][0]["content"]).source.split()[2] for side in SIDES),
        )
        for each in pairs(tmp_path, tasks, "short")
    ]
    assert found == [
        ("failed", "incorrect", "good", "bad"),
        ("slow", "slower", "fast", "slow"),
        ("level", "lower level", "fused", "naive"),
    ]


def test_wrong_attempts_become_refinements_and_all_become_labels(tmp_path):
    """A refinement shows the wrong kernel without its reasoning, what the verdict says, and a kernel that is right."""
    tasks = {name: Task(id=name, source="x = 1\n") for name in ("mended", "never")}
    ledger = Ledger(tmp_path / "records")

    def row(name, text, teacher="llm: a", **verdict):
        written = triple(tasks[name], Proposal("why", f"class ModelNew: {text}\n"), "cpp", **verdict)
        return {"split": "train"} | written | {"teacher": teacher, "record": f"curate/{name}/{text}"}

    wrong = {"status": "incorrect", "stage": "ran"}
    rows = [row("mended", "other", "llm: b"), row("mended", "bad", **wrong), row("mended", "good")]
    rows += [
        row("never", "bad", **wrong),
        row("never", "lost", status="infrastructure", stage="none", fault="executor"),
    ]
    write_table(tmp_path / PROPOSALS, rows, PROPOSAL_COLUMNS)
    error = TrialError(trial=0, kind="shape", message="output has shape [2], expected [3]")
    verdict = Verdict(task_id="mended", candidate="c", **wrong, **HERE, errors=(error,), trials=1)
    ledger.append(
        Record(
            **{"id": each["record"], "stage": "curate", "step": 0, "policy": "p", "task_id": "mended", "prompt": ""},
            **{"completion": each["completion"], "verdict": verdict, "machine": "here", "version": "0"},
        )
        for each in rows
    )
    (refined,) = refinements(tmp_path, tasks, "short")
    question, attempt, heard = refined["prompt"]
    assert [message["role"] for message in refined["prompt"]] == ["user", "assistant", "user"]
    assert "class ModelNew: bad" in attempt["content"] and "why" not in attempt["content"]
    assert "output has shape [2], expected [3]" in heard["content"] and heard["content"].endswith(AGAIN)
    assert Completion.parse(refined["completion"][0]["content"]).source == "class ModelNew: good\n"
    assert (refined["status"], refined["wrong_record"]) == ("incorrect", "curate/mended/bad")
    assert [(each["record"], each["label"]) for each in labels(tmp_path, tasks, "short")] == [
        ("curate/mended/other", True),
        ("curate/mended/bad", False),
        ("curate/mended/good", True),
        ("curate/never/bad", False),
    ]


def test_a_source_that_moved_between_two_runs_is_one_line(tmp_path):
    require_same(tmp_path, {"abc", None})
    require_same(tmp_path, {"abc"})
    with pytest.raises(UserError, match=r"source is now at def, and .* was begun at abc: go back to that"):
        require_same(tmp_path, {"def"})


def test_a_limit_of_cost_may_be_raised_for_a_run_that_goes_on(tmp_path):
    """What does not decide an answer, such as where the server is, is no other setting; the model is."""

    def settings(*words):
        return curate._settings(training_config(tmp_path, "teacher=llm", "teacher.model=m", *words))

    assert settings() == settings("teacher.max_cost=3", "teacher.base_url=http://elsewhere/v1", "teacher.concurrency=2")
    assert settings() != settings("teacher.model=other")


def test_a_contamination_report_is_taken_along(verified, tmp_path):
    report = {
        "tasks": 6,
        "benchmarks": [{"name": "heldout", "tasks": 1, "matched_by_kind": {"exact": 2, "graph": 1}, "dropped": 3}],
        "notes": ["not compared: KernelBench"],
    }
    write_json(verified / "contamination.json", report)
    (verified / "matches.jsonl").write_text('{"task": "t"}\n')
    folder = curate.run(training_config(tmp_path, "curate.timing=true", "tasks.num_train=6"))
    assert read_json(folder / "contamination.json") == report
    assert (folder / "matches.jsonl").read_text() == '{"task": "t"}\n'
    page = (folder / "README.md").read_text()
    assert "| heldout | 1 | 2 | 1 | 3 |" in page and "Not compared: KernelBench." in page


@pytest.mark.slow
def test_shards_are_verified_apart_and_merged(built, tmp_path):
    """Two shares with tasks of their own make one folder, from which the data set is selected as always."""

    def config(*words):
        cache = f"executor.cache_dir={built[0].executor.cache_dir}"
        return training_config(tmp_path, *SMALL, cache, "curate.num_triples=4", "curate.num_heldout_triples=0", *words)

    first = curate.run(config("curate.shard=1/2"))
    assert first == tmp_path / "verified" / "shard-1-of-2"
    with pytest.raises(UserError, match=r"curate merge: 2/2 of .* not finished; .* curate.shard=2/2"):
        curate.run(config("curate.merge=true"))
    second = curate.run(config("curate.shard=2/2"))
    with pytest.raises(UserError, match=r"other settings \(seed"):
        curate.run(config("curate.merge=true", "seed=1"))
    folder = curate.run(config("curate.merge=true"))
    tasks = [{row["task"] for row in read_table(path / TASKS, ["task"])} for path in (first, second)]
    assert tasks[0] and tasks[1] and not tasks[0] & tasks[1]
    assert {row["task"] for row in read_table(tmp_path / "verified" / TASKS, ["task"])} == tasks[0] | tasks[1]
    summary, parts = read_json(folder / "summary.json"), [read_json(path / "done.json") for path in (first, second)]
    for name in ("tasks_drawn", "tasks_train", "tasks_heldout", "proposals", "questions"):
        assert summary[name] == sum(part[name] for part in parts)
    assert summary["triples"] == 4 and summary["tasks_heldout"] == 2
    assert len(list(Ledger(tmp_path / "verified" / "records"))) >= summary["proposals"]
    report = read_json(folder / "contamination.json")
    assert report["tasks"] == sum(read_json(path / "contamination.json")["tasks"] for path in (first, second))
    for name in ("matches.jsonl", "dropped.jsonl"):
        joined = "".join((path / name).read_text() for path in (first, second))
        assert (tmp_path / "verified" / name).read_text() == joined


def test_shards_of_two_divisions_are_not_merged(tmp_path):
    for name in ("shard-1-of-2", "shard-1-of-8"):
        (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=r"curate merge: .* holds shards of 2 and of 8; delete some"):
        merge(tmp_path, {})


@pytest.mark.parametrize("text", ["0/2", "3/2", "half"])
def test_a_shard_is_one_of_several(text, tmp_path):
    with pytest.raises(UserError, match=f"curate.shard={text}: give the number of the share"):
        curate.run(training_config(tmp_path, f"curate.shard={text}"))


class Judge:
    """An executor that waits where it is told to, and finds every kernel right."""

    def __init__(self, wait_for=None):
        self.wait_for, self.judged = wait_for or {}, defaultdict(Event)

    def health(self):
        return [SimpleNamespace(alive=True)]

    def stream(self, requests):
        for index, request in enumerate(requests):
            id = request.task.id
            if id in self.wait_for:
                assert self.judged[self.wait_for[id]].wait(600), f"{id} waits for {self.wait_for[id]} in vain"
            self.judged[id].set()
            yield index, Verdict(task_id=id, candidate="c", status="correct", stage="correct", **HERE)


class Echo(Teacher):
    name, dialects = "echo", frozenset({"cpp"})

    def propose(self, task, dialect):
        return [Proposal("because", f"{task.id} {number}\n") for number in range(2)]


ECHOED = [Task(id=f"t{number}", source="") for number in range(12)]


def test_verification_does_not_wait_for_a_whole_batch(tmp_path):
    """Its window slides on: what lies beyond it is begun as soon as its first task is done."""
    verifier = Verifier(Judge({"t0": "t7", "t1": "t8"}), Ledger(tmp_path / "records"), "short", workers=1)
    verified = list(verifier.verify(ECHOED, [(Echo(), "cpp")], None, "verifying"))
    assert [proposed.task.id for proposed, _ in verified] == [task.id for task in ECHOED for _ in range(2)]
    assert len(list(Ledger(tmp_path / "records"))) == 24


@pytest.mark.parametrize("workers", [1, 8])
def test_what_is_verified_does_not_depend_on_how_many_judge(workers, tmp_path):
    verifier = Verifier(Judge(), Ledger(tmp_path / "records"), "short", workers)
    verified = list(verifier.verify(ECHOED, [(Echo(), "cpp")], 5, "verifying"))
    assert [proposed.task.id for proposed, _ in verified] == ["t0", "t0", "t1", "t1", "t2", "t2"]


def test_a_slow_disk_is_not_waited_for_once_for_each_kernel(tmp_path, monkeypatch):
    """Records that arrive while the disk is busy are written together, and all of them are there at the end."""
    written = []

    def append(ledger, records):
        if not written:  # the disk is busy until everybody else has handed in a record, too
            wait_for(lambda: len(records) + len(verifier._unwritten) == AHEAD)
        written.append(len(records))
        append_at_once(ledger, records)

    append_at_once = Ledger.append
    monkeypatch.setattr(Ledger, "append", append)
    verifier = Verifier(Judge(), Ledger(tmp_path), "short", workers=1)
    assert sum(1 for _ in verifier.verify(ECHOED, [(Echo(), "cpp")], None, "")) == 24
    assert sum(written) == len(list(Ledger(tmp_path))) == 24 and sum(written[:2]) >= AHEAD


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
    overrides = ["tasks.num_train=8", "tasks.num_heldout=2", "curate.num_triples=10", "curate.num_heldout_triples=2"]
    cfg = training_config(tmp_path / "killed", *overrides)
    verified, folder, output = Path(cfg.curate.verified), Path(cfg.curate.folder), tmp_path / "output"

    def lines(path):
        return path.read_bytes().count(b"\n") if path.exists() else 0

    moments = [
        lambda: lines(verified / "filters.jsonl") >= 3,
        lambda: lines(verified / "records" / "rank0.jsonl") >= 3,
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


@pytest.mark.parametrize("checks", [(), ("memory",)])
def test_a_second_look_that_never_works_is_noticed(checks, tmp_path, monkeypatch, caplog):
    """Checks that are passed are counted; with none among right kernels there is a warning."""
    cfg = training_config(tmp_path, "curate.sanitize=true", "curate.num_heldout_triples=0")
    verdict = Verdict(task_id="t", candidate="c", status="correct", stage="correct", **HERE, checks=checks)
    proposed = SimpleNamespace(
        **{"task": SimpleNamespace(id="t"), "dialect": "cpp", "teacher": "template", "id": "curate/t"},
        proposal=SimpleNamespace(completion=str, reasoning="", source="kernel", level=None, asked=None),
    )
    verifier = SimpleNamespace(verify=lambda *_: [(proposed, verdict)])
    monkeypatch.setattr(curate, "make_executor", nullcontext)
    monkeypatch.setattr(curate, "Heartbeat", lambda *_: nullcontext())
    monkeypatch.setattr(curate, "Verifier", lambda *_: verifier)
    figures = curate._verify(cfg, None, [], [], [], tmp_path)
    assert figures["proposals_by_check"] == dict.fromkeys(checks, 2)
    assert ("none of 2 right kernels has passed a check" in caplog.text) == (not checks)
