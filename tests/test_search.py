"""`kernelrl search`: the best kernel of each task, from a real server's answers to the page."""

import json

import pytest

from chat_server import answer
from conftest import KERNELS, REFERENCE
from executor_cases import FAST
from kernelrl import cli
from kernelrl.configs import compose_config
from kernelrl.data.rows import task_row
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.records import Ledger
from kernelrl.search import figures, page, run, stage
from kernelrl.stage_folder import SETTINGS
from kernelrl.strategies.budget import Spent
from kernelrl.strategies.protocol import Attempt
from kernelrl.strategies.runner import Outcome
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict
from scripted import completion

WRONG, RIGHT = (answer(completion(KERNELS[name])) for name in ("wrong", "right"))
FAILS = (500, "{}")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    rows = [task_row(Task(id=f"relu/{name}", source=REFERENCE), "cpp", "short", None) for name in "ab"]
    file = tmp_path_factory.mktemp("tasks") / "tasks.parquet"
    write_table(file, rows, TASK_COLUMNS)
    return file


@pytest.fixture
def words(tasks, tmp_path, monkeypatch, kept_executor, executor_cache, serve):
    monkeypatch.setattr(stage, "make_executor", kept_executor)

    def words(*script, folder="run"):
        return [
            f"output_dir={tmp_path / folder}",
            f"search.tasks={tasks}",
            "policy=endpoint",
            "policy.model=m",
            f"policy.base_url={serve(*script).url}",
            "policy.retries=0",
            "policy.concurrency=1",
            "executor.timing=false",
            f"executor.cache_dir={executor_cache}",
            *(f"executor.{name}={value}" for name, value in FAST.items() if name != "draws"),
            "executor.draws=tests",
        ]

    return words


def search(*overrides):
    return json.loads(run(compose_config("search", list(overrides))).read_text())


def test_it_finds_the_best_kernel_of_each_task_and_says_what_it_cost(words, tmp_path, capsys):
    results = search(*words(WRONG, WRONG, RIGHT), "strategy=refine", "search.budget.candidates=3")
    assert results["estimates"]["solved"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert [point["solved"] for point in results["curve"]] == [0.0, 1.0, 1.0]
    assert results["spent"] == {
        "completions": 6,
        "tokens": 9000,
        "candidates": 6,
        "device_seconds": results["spent"]["device_seconds"],
        "cost": None,
    }
    found = results["tasks"]["relu/a"]
    assert found["attempts"] == ["incorrect", "correct", "correct"]
    assert found["best"]["record"] == "search/relu/a/1" and found["best"]["turn"] == 1
    folder = tmp_path / "run" / "search"
    assert (folder / "best" / "relu_a.py").read_text() == KERNELS["right"]
    assert "<svg" in (folder / "search.html").read_text()
    said = capsys.readouterr().out
    assert "relu/a" in said and "right" in said and "9,000" in said
    records = list(Ledger(folder / "records"))
    assert {(record.stage, record.policy, record.finish, record.prompt_tokens) for record in records} == {
        ("search", "m", "stop", 1000)
    }


def test_a_server_that_dies_costs_nothing_that_was_answered(words, tmp_path):
    settings = ["strategy=refine", "search.budget.candidates=2"]
    with pytest.raises(UserError, match=r"the policy answers nothing \(role coder: HTTP 500\)"):
        search(*words(WRONG, WRONG, FAILS), *settings)
    results = search(*words(RIGHT), *settings)
    assert [each["attempts"] for each in results["tasks"].values()] == [["incorrect", "correct"]] * 2
    assert results["spent"]["completions"] == 4
    assert search(*words(FAILS), *settings) == results, "what has finished asks nobody"


def test_a_connection_that_breaks_in_a_round_leaves_what_was_answered(words, tmp_path):
    def breaks(_):
        raise ConnectionAbortedError

    settings = ["strategy=best_of_n", "strategy.n=4", "search.budget.candidates=4", "search.limit=1"]
    with pytest.raises(
        UserError, match=r"cannot be reached; .* \(what was answered is kept, and the same command asks"
    ):
        search(*words(WRONG, WRONG, breaks), *settings)
    journal = tmp_path / "run" / "search" / "answers.jsonl"
    assert len(journal.read_text().splitlines()) == 2
    results = search(*words(RIGHT), *settings)
    assert sorted(results["tasks"]["relu/a"]["attempts"]) == ["correct"] * 2 + ["incorrect"] * 2


def test_a_larger_budget_goes_on_from_there(words):
    settings = ["strategy=best_of_n", "strategy.n=2"]
    first = search(*words(WRONG), *settings, "search.budget.candidates=3")
    second = search(*words(RIGHT), *settings, "search.budget.candidates=4")
    assert [len(each["attempts"]) for each in first["tasks"].values()] == [3, 3]
    assert second["tasks"]["relu/b"]["attempts"] == ["incorrect"] * 3 + ["correct"]


def test_an_archive_of_another_run_is_shown_and_a_resumed_run_sees_the_same(words, tmp_path):
    search(*words(RIGHT, folder="first"), "strategy=single", "search.budget.candidates=1")
    folder, task = tmp_path / "first" / "search" / "archive", Task(id="a", source=REFERENCE)
    (known,) = stage.Archive(folder, 64).of(task)
    triton = known.verdict.model_copy(update={"dialect": "triton"})
    stage.Archive(folder, 64).add(task, [known.model_copy(update={"id": "triton", "verdict": triton})])
    shared = f"search.archive.folder={folder}"
    search(*words(WRONG), "strategy=contrastive", "search.budget.candidates=1", shared)
    before = stage.Archive(tmp_path / "run" / "search" / stage.BEFORE, 64)
    assert list(before.of(task)) == [known], "kernels of another dialect are no examples"


def test_strategies_are_compared_at_equal_budget(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = [WRONG] * 4 + [RIGHT]
    with pytest.raises(SystemExit) as end:
        cli.main(["search", "-m", *words(*script), "strategy=single,best_of_n", "search.budget.candidates=2"])
    assert not end.value.code
    summary = json.loads((tmp_path / "run" / page.COMPARISON).read_text())
    assert {name: each["estimates"]["solved"]["value"] for name, each in summary["searches"].items()} == {
        "strategy=single": 0.0,
        "strategy=best_of_n": 1.0,
    }
    assert {each["figure"] for each in summary["differences"]} == {"solved", "speedup_all"}
    html = (tmp_path / "run" / page.PAGE).read_text()
    assert "strategy=best_of_n" in html and "What is more than chance" in html
    assert str(tmp_path / "run" / page.PAGE) in capsys.readouterr().out


def test_another_capacity_of_the_archive_is_another_search(words):
    """It decides which kernels a strategy shows."""
    settings = ["strategy=best_of_n", "strategy.n=1", "search.budget.candidates=1"]
    search(*words(WRONG), *settings)
    with pytest.raises(UserError, match=r"a run with other settings \(archive_capacity"):
        search(*words(WRONG), *settings, "search.archive.capacity=1", "search.budget.candidates=2")


def test_a_folder_of_the_time_before_a_setting_resumes(words, tmp_path):
    """It was made as the setting's default has it."""
    settings = ["strategy=best_of_n", "strategy.n=1", "search.budget.candidates=1"]
    made = search(*words(WRONG), *settings)
    (path,) = (path for path in tmp_path.rglob(SETTINGS) if "archive_capacity" in path.read_text())
    lines = path.read_text().splitlines(keepends=True)
    earlier = [line for line in lines if line.strip() not in ("archive_capacity: 64", "counters: false")]
    assert len(earlier) == len(lines) - 2
    path.write_text("".join(earlier))
    for other, name in (("search.archive.capacity=1", "archive_capacity"), ("executor.counters=true", "counters")):
        with pytest.raises(UserError, match=rf"a run with other settings \((executor\.)?{name} was (64|False), now"):
            search(*words(WRONG), *settings, other)
    assert search(*words(WRONG), *settings) == made


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["search.budget.candidates=0"], r"search.budget.candidates=0: Input should be greater than 0"),
        (
            ["search.budget.candidates=null"],
            r"search.budget: there is no limit, and search.repeat=true would never end",
        ),
        (["+policy@policies.judge=endpoint"], r"policies.judge: strategy single asks no such role; it has coder"),
        (
            ["strategy=evolve", "strategy.ensemble=[coder,other]"],
            r"strategy evolve needs a policy for the role 'other'; add \+policy@policies.other=",
        ),
        (["strategy=refine", "strategy.max_turns=0"], r"strategy.max_turns=0: Input should be greater than 0"),
        (
            ["strategy=refine", "strategy.feedback.amount=all"],
            r"strategy.feedback.amount='all': Input should be 'status'",
        ),
        (["policy.model=null"], r"policy.model is not set; give the name of a served model"),
    ],
)
def test_what_cannot_be_searched_is_one_line_before_anything_is_asked(words, overrides, message):
    with pytest.raises(UserError, match=message) as error:
        search(*words(FAILS), *overrides)
    assert "\n" not in str(error.value)


def test_a_curve_never_falls_and_an_ended_task_stays_where_it_was():
    def outcome(*lows):
        attempts = [attempt_of(low) for low in lows]
        spent = [Spent(candidates=number + 1) for number in range(len(lows))]
        return Outcome(None, attempts=attempts, spent=spent[-1], history=spent)

    points = figures.curve([outcome(None, 1.5, 1.2, 2.0), outcome(0.5)])
    assert [point["solved"] for point in points] == [0.5, 1.0, 1.0, 1.0]
    assert [point["candidates"] for point in points] == [1.0, 1.5, 2.0, 2.5]
    assert [point["speedup"] ** 2 for point in points] == pytest.approx([1.0, 1.5, 1.5, 2.0])


def attempt_of(low):
    fields = {"status": "incorrect", "stage": "ran"}
    if low is not None:
        speedup = Speedup(median=low, low=low, high=low, pairs=9)
        fields = {"status": "correct", "stage": "correct", "speedup": speedup}
    return Attempt(None, None, Verdict(task_id="t", candidate="c", dialect="cpp", device="cpu", **fields))
