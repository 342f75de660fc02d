"""Figures of benchmark channels against hand-computed values."""

import json
from itertools import count

import pytest

from chat_server import answer
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.errors import UserError
from kernelrl.eval import run
from kernelrl.eval.channels import find_figures, surge
from kernelrl.eval.figure import Settings
from kernelrl.eval.metrics import compute_figures
from kernelrl.eval.settings import read_settings, read_strategy
from kernelrl.policies.prompts import build_prompt, to_text
from kernelrl.records import Ledger, Record
from kernelrl.task import Given, Task
from kernelrl.verdict import Speedup, Verdict, Violation

STAGES = {
    "correct": "correct",
    "incorrect": "ran",
    "runtime_error": "compiled",
    "compile_error": "legal",
    "illegal": "none",
}
_ids = count()


def sample(task, status, speedup=None, kernel="0", rewards=(), number=None, times=(None, None)):
    measured = speedup and Speedup(median=speedup, low=speedup, high=speedup, pairs=7)
    verdict = Verdict(
        task_id=task,
        candidate=kernel,
        status=status,
        stage=STAGES[status],
        dialect="cpp",
        device="cpu",
        speedup=measured,
        reference_ms=times[0],
        candidate_ms=times[1],
        violations=(Violation(rule="no_kernel", evidence=""),) if status == "illegal" else (),
    )
    return Record.of(
        id=f"eval/p/{task}/{next(_ids) if number is None else number}",
        policy="p",
        prompt="",
        completion="",
        verdict=verdict,
        rewards=dict(rewards),
    )


def values(channel, samples, k=(1,), case_of=lambda id: None):
    """The channel's figures of samples: task id -> records."""
    tasks = [Task(id=id, source="", category="c", case_of=case_of(id)) for id in samples]
    settings = Settings(k=k, fast_p=(), bootstrap=50, seed=0, extra=find_figures(channel))
    figures = compute_figures([each for group in samples.values() for each in group], tasks, settings)
    return {name: figure.estimate(settings)["value"] for name, figure in figures.items()}


def test_tritonbench_counts_operators_that_pass_in_every_case():
    a, b, c = ("tritonbench-t/add/test_case_1", "tritonbench-t/add/test_case_2", "tritonbench-t/relu/test_case_1")
    found = values(
        "tritonbench",
        {
            a: [
                sample(a, "correct", 2.0, rewards={"similarity": 0.5}.items(), number=0),
                sample(a, "correct", number=1, times=(1.0, 1.0)),
            ],
            b: [
                sample(b, "incorrect", rewards={"similarity": 0.25}.items(), number=0),
                sample(b, "correct", number=1, times=(8.0, 2.0)),
            ],
            c: [sample(c, "compile_error", number=0), sample(c, "correct", number=1, times=(1.0, 2.0))],
        },
    )
    assert found["call_accuracy"] == pytest.approx(3 / 4), "add runs twice in both cases, relu once of twice"
    assert found["execution_accuracy"] == pytest.approx(2 / 4)
    assert found["mean_speedup"] == pytest.approx(((1 + 8) / (1 + 2) + 1 / 2) / 2), "of kernels right in every case"
    assert found["similarity"] == pytest.approx((0.5 + 0.25) / 2)


def test_multikernelbench_estimates_at_k():
    found = values(
        "multikernelbench",
        {
            "a": [
                sample("a", "correct", 1.5),
                sample("a", "correct", 0.5),
                sample("a", "incorrect"),
                sample("a", "illegal"),
            ],
            "b": [sample("b", "compile_error") for _ in range(4)],
        },
        k=(1, 2),
    )
    assert found["compile@1"] == pytest.approx((3 / 4 + 0) / 2)
    assert found["compile@2"] == pytest.approx((1 + 0) / 2), "three of four compile: any two hold one"
    assert found["speedup_1@1"] == pytest.approx((1 / 4 + 0) / 2)
    assert found["speedup_1@2"] == pytest.approx((1 - 3 / 6 + 0) / 2)


def test_robust_kbench_wants_every_configuration():
    """One kernel for each number of a sample: sample 0 fails in what is known of it, sample 3 may be right."""
    ids = [f"robust_kbench/{name}" for name in ("mlp/forward/0", "mlp/forward/1", "mlp/backward/0")]
    found = values(
        "robust_kbench",
        {
            ids[0]: [sample(ids[0], "incorrect" if number == 0 else "correct", number=number) for number in range(4)],
            ids[1]: [sample(ids[1], "correct", number=1), sample(ids[1], "incorrect", number=2)],
            ids[2]: [sample(ids[2], "incorrect", number=number) for number in (0, 1, 2)],
        },
        case_of=lambda id: id.rpartition("/")[0],
    )
    assert found["robust"] == pytest.approx(1 / 6)
    assert (found["forward"], found["backward"]) == pytest.approx((4 / 6, 0))


@pytest.mark.parametrize(
    ("suggestions", "score"),
    [
        ([("incorrect", "a"), ("compile_error", "b")] * 5, 0),
        ([("correct", "a"), ("illegal", "b")] * 5, 0.25),
        ([("correct", "a")] * 9 + [("incorrect", "b")], 0.5),
        ([("correct", "a")] * 9 + [("correct", "b")], 0.75),
        ([("correct", "a")] * 10, 1),
        ([("correct", "a")] * 10 + [("illegal", "b")], 1),  # only the first ten count
        ([("correct", "a")] * 9, None),  # the tenth has no verdict
    ],
)
def test_proficiency(suggestions, score):
    samples = {"hpc/axpy": [sample("hpc/axpy", status, kernel=kernel) for status, kernel in suggestions]}
    assert values("hpc", samples)["proficiency"] == score


def test_a_kernel_with_fewer_than_ten_suggestions_is_left_out():
    gemv, axpy = ("hpc/gemv", 10, "incorrect"), ("hpc/axpy", 9, "correct")
    samples = {task: [sample(task, status) for _ in range(number)] for task, number, status in (gemv, axpy)}
    assert values("hpc", samples)["proficiency"] == 0


def test_proficiency_of_fewer_than_ten_samples_is_refused_before_anything_is_sampled(tmp_path, serve):
    server = serve(answer("no kernel"))
    policy = f"+eval.policies.m={{backend:endpoint,model:m,base_url:'{server.url}'}}"
    words = [
        "eval/policies=none",
        policy,
        "channel=hpc",
        "eval.samples=1",
        "eval.k=[1]",
        f"output_dir={tmp_path / 'run'}",
    ]
    with pytest.raises(UserError) as error:
        run(compose_config("eval", words))
    assert str(error.value) == (
        "eval.channel=hpc: its figures are of 10 samples per task, but eval.samples=1; "
        "give eval.samples=10 or eval.channel=null"
    )
    assert not server.requests and not (tmp_path / "run").exists()


def test_the_six_kernels_of_the_proficiency_metric():
    tasks = sources.load_all(compose_config("eval", ["channel=hpc"]).tasks)
    assert [task.id for task in tasks] == [
        f"hpc/{name}" for name in ("axpy", "conjugate_gradients", "gemm", "gemv", "jacobi", "spmv")
    ]


def test_a_channel_chooses_tasks_and_figures():
    cfg = compose_config("eval", ["channel=multikernelbench", "tasks.path=somewhere"])
    assert (cfg.tasks.source, cfg.eval.tasks, cfg.eval.channel) == ("multikernelbench", None, "multikernelbench")
    kernelbench = compose_config("eval", ["channel=kernelbench"])
    assert kernelbench.executor.protocol == "kernelbench" and kernelbench.executor.compile_baseline == "default"
    with pytest.raises(UserError, match="eval.channel='x' is not known; choose one of hpc, multikernelbench"):
        find_figures("x")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("eval.channel=robust_kbench", "eval.channel=robust_kbench: 6 of 6 tasks are not of tasks=robust_kbench, e.g."),
        ("eval.channel=tritonbench", "eval.channel=tritonbench: 6 of 6 tasks are not of tasks=tritonbench, e.g."),
        ("eval.channel=surge", "eval.channel=surge: 6 of 6 tasks are not of tasks=surge, e.g."),
        ("eval.kernelbench_run=true", "eval.kernelbench_run: task hpc/axpy is not of tasks=kernelbench"),
    ],
)
def test_tasks_of_another_benchmark_are_refused_before_anything_is_sampled(setting, message, tmp_path, serve):
    server = serve(answer("no kernel"))
    policy = f"+eval.policies.m={{backend:endpoint,model:m,base_url:'{server.url}'}}"
    words = ["eval/policies=none", policy, "tasks=hpc", "eval.tasks=null", setting, f"output_dir={tmp_path / 'run'}"]
    with pytest.raises(UserError) as error:
        run(compose_config("eval", words))
    assert str(error.value).startswith(message) and "\n" not in str(error.value)
    assert not server.requests and not (tmp_path / "run").exists()


def test_surrogate_execution_by_hand():
    """Four kernels, one of them right; a policy that says nothing of one of them."""
    statuses = {"a": "correct", "b": "incorrect", "c": "compile_error", "d": "incorrect"}
    tasks = [
        Task(id=id, source="", category=status, given=Given(dialect="cpp", source="", status=status))
        for id, status in statuses.items()
    ]
    said = {"a": ["CORRECT: 0.95"], "b": ["CORRECT: 0.91", "CORRECT: 0.2"], "c": ["CORRECT: 25 %"], "d": ["no idea"]}
    records = [
        Record.of(
            id=f"eval/p/{task.id}/{index}",
            policy="p",
            prompt="",
            completion=text,
            verdict=surge.judge(task, Completion.parse(text)),
        )
        for task in tasks
        for index, text in enumerate(said[task.id])
    ]
    settings = Settings(k=(1,), fast_p=(), bootstrap=50, seed=0, extra=find_figures("surge"))
    found = {name: it.estimate(settings)["value"] for name, it in compute_figures(records, tasks, settings).items()}
    assert found["answered"] == pytest.approx(4 / 5)
    assert found["accuracy"] == found["correct"] == pytest.approx(3 / 5), "the missing one is wrong"
    assert found["brier"] == pytest.approx((0.05**2 + 0.91**2 + 0.2**2 + 0.25**2) / 4)
    assert found["brier_base"] == pytest.approx((0.75**2 + 3 * 0.25**2) / 4)
    # bins [0.2, 0.3): |0.45 - 0|; [0.9, 1]: |1.86 - 1|
    assert found["ece"] == pytest.approx((0.45 + 0.86) / 4)
    assert [record.verdict.status for record in records] == ["correct", "incorrect", "correct", "correct", "illegal"]


@pytest.mark.parametrize(
    ("text", "predicted"),
    [
        ("CORRECT: 0.7", 0.7),
        ("CORRECT: 0.2\nNo, wait.\n**CORRECT: .85**", 0.85),
        ("<think>\nCORRECT: 0.1\n</think>\nI am sure.\ncorrect = 1", 1.0),
        ("CORRECT: 40%", 0.4),
        ("CORRECT: 7", None),
        ("CORRECT: -0.2", None),
        ("**CORRECT:** −20 %", None),
        ("CORRECT - 0.2", 0.2),
        ("<think>\nCORRECT: 0.1", None),
        ("It is CORRECT: 0.5, or not", None),
        ("CORRECT: 1e-3", 0.001),
        ("CORRECT: 2.5E−1", 0.25),
        ("CORRECT: -1e-3", None),
        ("CORRECT: 0.9 (likely)", 0.9),
        ("CORRECT: 0.8, as far as I can tell.", 0.8),
        ("CORRECT: 70 % sure", 0.7),
        ("CORRECT: 70 percent", 0.7),
        ("CORRECT: p=0.3", 0.3),
        ("CORRECT: p = −0.3", None),
        ("**Correct:** probability 0.6", 0.6),
        ("CORRECT: 70/100", None),
        ("CORRECT: 0.7 to 0.9", None),
        ("CORRECT: 0.2\nI see no 3 errors", 0.2),
    ],
)
def test_what_a_policy_predicts_is_its_last_line(text, predicted):
    assert surge.read_prediction(text) == predicted


def test_candidates_of_a_run_become_questions_that_do_not_give_their_verdicts_away(tmp_path):
    program = "class Model:\n    pass"
    asked = to_text([{"role": "user", "content": f"Rewrite\n```python\n{program}\n```\n"}])
    Ledger(tmp_path / "eval" / "p" / "records").append(
        sample(f"t{index}", status).model_copy(
            update={"prompt": asked, "completion": f"```python\nclass ModelNew: n = {index}\n```\n"}
        )
        for index, status in enumerate(["incorrect", "correct", "incorrect", "compile_error", "illegal"])
    )
    cfg = compose_config("eval", ["channel=surge", f"tasks.run={tmp_path}", "tasks.num=4"])
    tasks = sources.load_all(cfg.tasks)
    assert [task.given.status == "correct" for task in tasks] == [True, False, False, False], "in turn, while there are"
    (question,) = build_prompt(tasks[1], "cpp", cfg.prompt.style)
    assert tasks[1].given.source.strip() in question["content"] and program in question["content"]
    assert tasks[1].given.status not in question["content"]
    with pytest.raises(UserError, match="tasks.run is not set; give the folder of a run"):
        sources.load_all(compose_config("eval", ["channel=surge"]).tasks)


def test_a_policy_predicts_the_verdicts_of_a_run_and_no_kernel_is_run(tmp_path, serve, executor_cache):
    asked = to_text([{"role": "user", "content": "Rewrite\n```python\nclass Model:\n    pass\n```\n"}])
    Ledger(tmp_path / "judged" / "records").append(
        sample(f"t{index}", status).model_copy(
            update={"prompt": asked, "completion": f"```python\nclass ModelNew: n = {index}\n```\n"}
        )
        for index, status in enumerate(["incorrect", "correct"])
    )
    overrides = {
        "channel": "surge",
        "tasks.run": tmp_path / "judged",
        "output_dir": tmp_path / "run",
        "tracker": "none",
        "executor.cache_dir": executor_cache,
        "eval.bootstrap": 50,
        "+eval.policies.m.backend": "endpoint",
        "+eval.policies.m.model": "m",
        "+eval.policies.m.base_url": serve(answer("CORRECT: 0.9")).url,
    }
    left_out = [f"~eval.policies.{name}" for name in ("base", "sft", "grpo")]
    run(compose_config("eval", [*left_out, *(f"{key}={value}" for key, value in overrides.items())]))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    policy = results["policies"]["m"]
    found = {name: policy["figures"][name]["value"] for name in ("answered", "accuracy", "brier", "brier_base", "ece")}
    assert found == pytest.approx(
        {"answered": 1, "accuracy": 0.5, "brier": (0.1**2 + 0.9**2) / 2, "brier_base": 0.25, "ece": 0.4}
    )
    assert policy["categories"]["correct"]["figures"]["accuracy"]["value"] == 1
    assert results["executor"]["oracle"] == "float64" and "cache_dir" not in results["executor"]
    assert {record.verdict.protocol for record in Ledger(tmp_path / "run" / "eval" / "m" / "records")} == {"surge"}


def test_a_kernel_for_several_cases_is_not_refined():
    cfg = compose_config("eval", ["channel=tritonbench", "tasks.path=nowhere", "strategy=refine"])
    case = Task(id="tritonbench-t/add/one", source="", case_of="tritonbench-t/add")
    with pytest.raises(UserError, match="one kernel has to serve all cases of tritonbench-t/add.*use strategy=single"):
        read_strategy(cfg, read_settings(cfg.eval), [case])


def test_predictions_are_not_refined():
    cfg = compose_config("eval", ["channel=surge", "tasks.run=somewhere", "strategy=refine"])
    with pytest.raises(UserError, match="eval.channel=surge: has no kernels to refine; use strategy=single"):
        read_strategy(cfg, read_settings(cfg.eval), [])


ADD = f"""import torch

def add(input, other, alpha=1):
    return input + alpha * other

{"#" * 146}
def test_add():
    results = {{}}
    x = torch.rand(64)
    results["one"] = add(x, torch.rand(64))
    results["two"] = add(x, 2.0, alpha=0.5)
"""
KERNEL = """```python
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, input, other):
        return input + {} * other
```"""


@pytest.mark.slow
def test_one_kernel_is_asked_for_and_judged_in_every_case(tmp_path, serve, executor_cache):
    """The second of two samples leaves `alpha` out: right in the first case, wrong in the other."""
    (tmp_path / "TritonBench_T_v1").mkdir()
    (tmp_path / "TritonBench_T_v1" / "add.py").write_text(ADD)
    server = serve(answer(KERNEL.format("self.alpha")), answer(KERNEL.format("1")))
    overrides = {
        "channel": "tritonbench",
        "dialect": "python",
        "tasks.path": tmp_path,
        "output_dir": tmp_path / "run",
        "eval.samples": 2,
        "executor.timing": "false",
        "executor.cache_dir": executor_cache,
        "+eval.policies.m.backend": "endpoint",
        "+eval.policies.m.model": "m",
        "+eval.policies.m.base_url": server.url,
        "+eval.policies.m.concurrency": 1,
        "tracker": "none",
    }
    without = [f"~eval.policies.{name}" for name in ("base", "sft", "grpo")]
    cfg = compose_config("eval", [*without, *(f"{key}={value}" for key, value in overrides.items())])
    results = json.loads(run(cfg).read_text())
    assert len(server.requests) == 2, "one question for each sample, not for each case"
    assert "for other arguments of the constructor" in server.requests[0][2]["messages"][-1]["content"]
    records = {record.id: record for record in Ledger(tmp_path / "run" / "eval" / "m" / "records")}
    statuses = {id.removeprefix("eval/m/tritonbench-t/add/"): it.verdict.status for id, it in records.items()}
    assert statuses == {"one/0": "correct", "two/0": "correct", "one/1": "correct", "two/1": "incorrect"}
    assert results["policies"]["m"]["figures"]["execution_accuracy"]["value"] == pytest.approx(1 / 2)
    tokens = [record.completion_tokens for record in records.values()]
    assert sorted(map(bool, tokens)) == [False, False, True, True], "a completion is paid for once"
