"""The surrogate: its metrics by hand, its fit on made-up candidates, and as a filter on a real ledger."""

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from chat_server import answer
from conftest import KERNELS, REFERENCE
from executor_cases import FAST
from kernelrl.candidate import Candidate
from kernelrl.commands import surrogate as command
from kernelrl.configs import compose_config
from kernelrl.data.judged import Example, Text, find_program, normalize
from kernelrl.data.rows import task_row
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.eval.calibration import Bin, brier, calibration_error, reliability, signed_gaps
from kernelrl.eval.surrogate import model, quality
from kernelrl.eval.surrogate.decision import Prediction, Rule
from kernelrl.executor import Request
from kernelrl.policies.prompts import STYLES, build_prompt, to_text
from kernelrl.records import Ledger, Record
from kernelrl.search import run, stage
from kernelrl.task import Given, Task
from scripted import completion

OPERATORS = ("relu", "exp", "tanh", "sqrt")


def test_brier_score_and_calibration_error_by_hand():
    p, y = [0.9, 0.95, 0.15, 0.12, 0.5], [1, 0, 0, 1, 1]
    assert brier(p, y) == pytest.approx((0.01 + 0.9025 + 0.0225 + 0.7744 + 0.25) / 5)
    # bins [0.1, 0.2): |0.27 - 1|; [0.5, 0.6): |0.5 - 1|; [0.9, 1]: |1.85 - 1|
    assert calibration_error(p, y) == pytest.approx((0.73 + 0.5 + 0.85) / 5)
    assert signed_gaps(p, y) == pytest.approx([-0.1, 0.95, -0.15, 0.88, 0.5])
    assert reliability([0.91, 0.99, 1.0, 0.0], [1, 1, 0, 0]) == [Bin(0, 0, 1), Bin(pytest.approx(2.9 / 3), 2 / 3, 3)]
    assert calibration_error([0.25] * 4, [1, 0, 0, 0]) == 0
    assert math.isnan(brier([], [])) and math.isnan(calibration_error([], []))


def unseen(most, correct):
    most_N = np.array(most)
    none = np.array([])
    return model.Unseen(np.array(correct), np.array(correct), most_N, most_N, most_N, 0 * most_N, none, none)


def test_the_threshold_keeps_the_promised_share_of_right_candidates():
    """Of nine right ones, 20 % may be lost: floor(0.2 * 10) = 2, so the second smallest is the threshold."""
    right = [0.9, 0.1, 0.8, 0.7, 0.3, 0.6, 0.5, 0.4, 0.95]
    found = unseen([*right, 0.0, 0.99], [True] * 9 + [False] * 2)
    assert found.threshold(0.2) == 0.3, "one of nine lies below it"
    assert found.threshold(0.1) == 0.1, "none does"
    assert found.threshold(0.09) == 0.0, "nine are too few for that promise: nothing is refused"


@pytest.mark.parametrize(
    ("mean", "most", "novelty", "decision"),
    [
        (0.6, 0.9, 0.0, "judge"),
        (0.5, 0.5, 1.0, "judge"),
        (0.1, 0.2, 0.3, "refuse"),
        (0.1, 0.6, 0.0, "abstain"),
        (0.1, 0.2, 0.4, "abstain"),
    ],
)
def test_it_abstains_where_its_forests_disagree_or_the_candidate_is_new_to_it(mean, most, novelty, decision):
    rule = Rule(threshold=0.5, max_novelty=0.3)
    assert rule(Prediction(1.0, mean, most, novelty, None)) == decision


@pytest.mark.parametrize("style", [style for style in STYLES if style not in ("transpile", "surge")])
def test_the_program_is_found_in_a_prompt_however_it_is_asked_and_over_turns(style):
    prompt = build_prompt(Task(id="a", source=REFERENCE), "cpp", style)
    assert find_program(to_text(prompt)) == normalize(REFERENCE)
    turns = [*prompt, {"role": "assistant", "content": completion(KERNELS["wrong"])}, {"role": "user", "content": "no"}]
    assert find_program(to_text(turns)) == normalize(REFERENCE)


def test_a_prompt_without_a_program_has_none():
    given = Given(dialect="cuda", source="class ModelNew: pass", status="correct")
    assert find_program(to_text(build_prompt(Task(id="a", source=REFERENCE, given=given), "cpp", "transpile"))) is None


def make_examples(num_programs, each):
    """Right is what applies its program's operator and has its semicolon; `parallel` makes it twice as fast."""
    rng, found = random.Random(0), []
    for number in range(num_programs):
        operator = OPERATORS[number % len(OPERATORS)]
        program = f"class Model:\n    def forward(self, x):\n        return torch.{operator}(x) + {number}.0"
        for index in range(each):
            used = operator if index % 2 else rng.choice(OPERATORS)
            ends, parallel = index % 3 != 2, rng.random() < 0.5
            kernel = f"{'#pragma parallel' if parallel else ''}\no[i] = my_{used}(a[i]) + {number}.0f{';' * ends}\n"
            right = ends and used == operator
            log = math.log(2) * parallel + rng.gauss(0, 0.05) if right else None
            text = Text(program, "cpp", kernel + " pad" * rng.randrange(4))
            status = "correct" if right else "incorrect" if ends else "compile_error"
            found.append(Example(text, status, ends, right, log))
    return found


@pytest.fixture(scope="module")
def fitted():
    examples = make_examples(24, 6)
    return examples, model.fit(examples, trees=10)


def test_it_learns_what_compiles_is_right_and_is_fast_and_is_measured_on_programs_it_has_not_seen(fitted):
    _, surrogate = fitted
    found = quality.describe(surrogate.unseen)
    for target in found["targets"].values():
        assert target["auroc"] > 0.9 and target["brier"] < 0.6 * target["brier_base"]
        assert sum(each["count"] for each in target["reliability"]) == found["examples"] == 144
    assert found["speedup"]["factor"] < 1.3 and found["speedup"]["spearman"] > 0.5
    assert [it["lost"] <= it["max_loss"] for it in found["filter"]] == [True] * 4
    assert found["filter"][-1]["refused"] > 0.3


def test_no_program_is_on_both_sides_of_a_split(fitted):
    examples, _ = fitted
    programs = np.array([example.text.program for example in examples])
    right = np.array([example.correct for example in examples])
    folds = model._folds(np.zeros((len(examples), 1)), right, programs, seed=0)
    assert all(not set(programs[train]) & set(programs[test]) for train, test in folds)
    assert sorted(index for _, test in folds for index in test) == list(range(len(examples)))


def test_it_predicts_a_new_program_and_knows_a_dialect_that_it_does_not_know(fitted, tmp_path):
    _, fresh = fitted
    fresh.save(tmp_path)
    surrogate = model.Surrogate.load(tmp_path)
    program = "class Model:\n    def forward(self, x):\n        return torch.relu(x) + 7.0"
    right = Text(program, "cpp", "\no[i] = my_relu(a[i]) + 7.0f;\n")
    broken = Text(program, "cpp", "\no[i] = my_relu(a[i]) + 7.0f\n")
    good, bad, other = surrogate.predict([right, broken, Text(program, "triton", broken.kernel)])
    assert good.correct > 1.5 * bad.correct and good.compiled > bad.compiled
    assert bad.correct <= bad.correct_most and (bad.novelty, other.novelty) == (0.0, 1.0)
    assert 0.5 < good.speedup < 2.5


def test_too_little_is_said_and_so_is_a_surrogate_of_other_versions(fitted, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="surrogate: compiled candidates for 4 programs among 24 candidates"):
        model.fit(make_examples(4, 6))
    with pytest.raises(UserError, match="no surrogate there; fit one: kernelrl surrogate RUN"):
        model.Surrogate.load(tmp_path)
    fitted[1].save(tmp_path)
    monkeypatch.setattr(model.sklearn, "__version__", "0.1")
    with pytest.raises(UserError, match="fit it again"):
        model.Surrogate.load(tmp_path)


@pytest.fixture(scope="module")
def judged_run(kept_executor, executor_cache, tmp_path_factory):
    """A ledger of three kernels for each of ten programs, really judged."""
    folder = tmp_path_factory.mktemp("judged")
    tasks = [Task(id=f"rows/{rows}", source=REFERENCE.replace("256", str(rows))) for rows in range(64, 74)]
    asked = [(task, KERNELS[name]) for task in tasks for name in ("right", "wrong", "broken")]
    with kept_executor({**FAST, "timing": False, "cache_dir": str(executor_cache)}) as executor:
        verdicts = executor.evaluate(
            [Request(task=task, candidate=Candidate(source=it, dialect="cpp"), dialect="cpp") for task, it in asked]
        )
    Ledger(folder / "eval" / "p" / "records").append(
        Record.of(
            id=f"eval/p/{index}",
            policy="p",
            prompt=to_text(build_prompt(task, "cpp", "short")),
            completion=completion(kernel),
            verdict=verdict,
        )
        for index, ((task, kernel), verdict) in enumerate(zip(asked, verdicts, strict=True))
    )
    assert command.main([str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_the_command_writes_the_surrogate_its_figures_and_the_page(judged_run):
    found = json.loads((judged_run / "surrogate" / "surrogate.json").read_text())
    assert (found["examples"], found["programs"], found["dialects"]) == (30, 10, ["cpp"])
    assert found["targets"]["compiled"]["base_rate"] == pytest.approx(2 / 3)
    assert found["targets"]["correct"]["auroc"] > 0.9 and found["speedup"] is None
    page = (judged_run / "surrogate" / "surrogate.html").read_text()
    assert "Reliability of the predicted probabilities" in page and "Too few kernels were timed" in page


@pytest.fixture
def search(judged_run, tmp_path, serve, kept_executor, executor_cache, monkeypatch):
    monkeypatch.setattr(stage, "make_executor", kept_executor)
    file = tmp_path / "tasks.parquet"
    task = Task(id="new", source=REFERENCE.replace("256", "80"))
    write_table(file, [task_row(task, "cpp", "short", None)], TASK_COLUMNS)

    def search(*overrides):
        script = [answer(completion(KERNELS[name])) for name in ("broken", "wrong", "broken", "right", "wrong")]
        words = [
            f"output_dir={tmp_path}",
            f"search.tasks={file}",
            "policy=endpoint",
            "policy.model=m",
            f"policy.base_url={serve(*script).url}",
            "policy.concurrency=1",
            "strategy=best_of_n",
            "strategy.n=5",
            "search.filter=surrogate",
            f"search.surrogate.folder={judged_run / 'surrogate'}",
            "search.surrogate.max_loss=0.1",
            "search.repeat=false",
            "executor.timing=false",
            f"executor.cache_dir={executor_cache}",
            *(f"executor.{name}={value}" for name, value in FAST.items()),
        ]
        return json.loads(run(compose_config("search", [*words, *overrides])).read_text())

    return search


@pytest.mark.slow
def test_a_search_judges_only_what_may_be_right(search, tmp_path, capsys):
    results = search("search.surrogate.audit=0.0001")
    found, spent = results["filter"], results["spent"]
    assert results["estimates"]["solved"]["value"] == 1
    assert found["not_judged"] >= 2 and spent["completions"] == 5
    assert spent["candidates"] == 5 - found["not_judged"], "what was refused costs no candidate"
    assert (found["audited"], found["refused_right"], found["saved_seconds"]) == (0, None, None), "not measured"
    records = list(Ledger(tmp_path / "search" / "records"))
    refused = [record for record in records if record.verdict.protocol == "refused"]
    assert len(refused) == found["not_judged"] and all(record.reward is None for record in refused)
    assert "Not judged: the surrogate gives it a chance of" in refused[0].verdict.feedback
    assert "not judged" in capsys.readouterr().out and "as a filter" in Path(tmp_path, "search/search.html").read_text()


def test_what_is_refused_and_judged_all_the_same_says_what_it_costs(search):
    results = search("search.surrogate.audit=1")
    found = results["filter"]
    assert results["spent"]["candidates"] == 5 and found["not_judged"] == 0
    assert found["audited"] == found["refused"] >= 2
    assert found["refused_right"]["value"] == 0 < found["refused_right"]["high"] < 1
    assert found["saved_seconds"] == 0 and found["lost"]["value"] == 0 and found["brier"] < 0.25


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("search.filter=magic", "search.filter='magic': Input should be 'surrogate'"),
        ("search.surrogate.audit=0", "search.surrogate.audit=0: Input should be greater than 0"),
        ("search.surrogate.folder=nowhere", "nowhere: no surrogate there; fit one: kernelrl surrogate RUN"),
    ],
)
def test_a_filter_that_cannot_be_used_is_said_at_once(search, override, message):
    with pytest.raises(UserError, match=message):
        search(override)
