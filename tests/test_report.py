"""The report: one file, everything in it, and nothing a completion says can act."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from kernelrl.errors import UserError
from kernelrl.eval.metrics import Settings, compare, summarize
from kernelrl.eval.report import choose_samples, highlight, render, run
from kernelrl.records import Ledger, Record, write_json
from kernelrl.task import Task
from kernelrl.verdict import Build, Speedup, TrialError, Verdict, Violation

SETTINGS = Settings(k=(1, 4), fast_p=(0, 1, 1.5, 2), bootstrap=300, seed=0)
CATEGORIES = ("elementwise", "softmax", "reduction", "matmul")
REFERENCE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
"""
ANSWER = '''\
<think>
Two elementwise operators over one tensor: memory-bound. One fused pass reads and writes each element once; rows are
split over the threads.
</think>
```python
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = std::max(a[i], 0.0f) * 2.0f;  // fused
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
```
'''
CHEAT = """\
```python
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0
```
"""
HOSTILE = """\
<think></pre><script>alert(1)</script>{{ 7 * 7 }}{% raw %}</think>
```python
class ModelNew: '''</pre><img src=x onerror=alert(1)>''' # <script src="https://example.com/x.js"></script>
\"\"\"<svg onload=alert(1)>\"\"\" # </style><style>@import url(https://example.com)</style> \x1b[31m
```
"""
OUTCOMES = {
    "correct": ("correct", "correct", ANSWER),
    "incorrect": ("incorrect", "ran", ANSWER.replace("* 2.0f", "* 3.0f")),
    "unbuilt": ("compile_error", "legal", ANSWER.replace("int64_t n", "int64 n")),
    "no_kernel": ("illegal", "none", "<think>\nrelu and then"),
    "illegal": ("illegal", "parsed", CHEAT),
}
VIOLATIONS = {
    "illegal": (Violation(rule="library_call", evidence="torch.relu", line=5),),
    "no_kernel": (Violation(rule="no_kernel", evidence="no complete code block defines ModelNew"),),
}


def make_record(policy, task, index, outcome, speedup=None, completion=None):
    status, stage, text = OUTCOMES[outcome]
    verdict = Verdict(
        task_id=task.id,
        candidate=None if outcome == "no_kernel" else "c",
        status=status,
        stage=stage,
        dialect="cpp",
        device="cpu",
        violations=VIOLATIONS.get(outcome, ()),
        errors=(TrialError(trial=0, kind="mismatch", message="largest difference 4.1 at [0, 3]", max_abs=4.1),)
        if status == "incorrect"
        else (),
        reference_ms=1.92 if speedup else None,
        candidate_ms=1.92 / speedup if speedup else None,
        speedup=Speedup(median=speedup, low=0.93 * speedup, high=1.06 * speedup, pairs=11) if speedup else None,
        build=Build(ok=status != "compile_error", seconds=0.4, cached=False, units=1),
        feedback={
            "incorrect": "Trial 0: outputs differ from the reference.\nexpected 2.7341, got 4.1011 at [0, 3].",
            "compile_error": "error: 'int64' was not declared in this scope; did you mean 'int64_t'?",
        }.get(status, ""),
    )
    return Record(
        id=f"eval/{policy}/{task.id}/{index}",
        stage="eval",
        step=0,
        policy=policy,
        task_id=task.id,
        prompt=f"[user]\nRewrite this program as one C++ with OpenMP kernel, `ModelNew`.\n```python\n{task.source}```",
        completion=completion or text,
        verdict=verdict,
        rewards={"rule": float(verdict.legal), "correct": float(verdict.correct), "speedup": 0.2},
        reward=1.1 if verdict.correct else 0.0,
        machine="AMD EPYC x2",
        version="0.1.0",
    )


def make_run(folder, num_tasks=40, samples=4):
    """What a finished run leaves behind, with made-up figures."""
    rng = np.random.default_rng(0)
    tasks = [
        Task(id=f"synthetic-{index:03}", source=REFERENCE, category=CATEGORIES[index % len(CATEGORIES)])
        for index in range(num_tasks)
    ]
    chances = {
        "base": (0, 0, 0, 0.95, 0.05),
        "sft": (0.42, 0.3, 0.15, 0.08, 0.05),
        "grpo": (0.68, 0.2, 0.06, 0.03, 0.03),
    }
    records, policies = {}, {}
    for policy, p in chances.items():
        records[policy] = [
            make_record(policy, task, index, outcome, rng.lognormal(0.5, 0.5) if outcome == "correct" else None)
            for task in tasks
            for index, outcome in enumerate(rng.choice(list(OUTCOMES), size=samples, p=p))
        ]
        Ledger(folder / "eval" / policy / "records").append(records[policy])
        policies[policy] = {"policy": policy, **summarize(records[policy], tasks, SETTINGS)}
    names = list(chances)
    results = {
        "policies": policies,
        "comparisons": [
            {"after": after, "before": before, "figures": compare(records[after], records[before], tasks, SETTINGS)}
            for before, after in zip(names, names[1:], strict=False)
        ],
        "name": "demo",
        "seed": 0,
        "dialect": "cpp",
        "reward": "kernelrl",
        "version": "0.1.0",
        "git": "91d516f",
        "packages": {"torch": "2.13.0"},
        "machine": "AMD EPYC x2 | no GPU | torch 2.13.0 | g++ 13.2",
        "time": "2026-01-01T00:00:00Z",
    }
    write_json(folder / "results.json", results)
    steps = np.arange(1, 121)
    noise = rng.normal(0, 0.05, size=(4, len(steps)))
    grpo = [
        {
            "step": int(step),
            "reward": 0.45 + 0.35 * step / 120 + noise[0, i],
            "reward/correct": 0.42 + 0.28 * step / 120 + noise[1, i],
            "reward/rule": 0.93 + noise[2, i] / 2,
            "reward/speedup": 0.1 + 0.1 * step / 120,
            "parsed": 0.96,
            "legal": 0.93 + noise[2, i] / 2,
            "compiled": 0.8 + 0.1 * step / 120,
            "correct": 0.42 + 0.28 * step / 120 + noise[1, i],
            "speedup_low": 1.3 + 0.4 * step / 120 + noise[3, i],
            "entropy": 0.4 - 0.2 * step / 120,
            "broke/library_call": 0.02 + 0.1 * step / 120,
            "coverage": 0.97,
            "frac_reward_zero_std": 0.3 + 0.2 * step / 120,
        }
        for i, step in enumerate(steps)
    ]
    sft = [
        {"step": step, "loss": 2.5 * np.exp(-step / 60) + 0.1, "mean_token_accuracy": 1 - 0.8 * np.exp(-step / 50)}
        for step in range(10, 310, 10)
    ]
    for stage, entries in (("sft", sft), ("grpo", grpo)):
        (folder / stage).mkdir()
        (folder / stage / "log.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return OmegaConf.create(
        {
            "output_dir": str(folder),
            "eval": {"folder": str(folder / "eval")},
            "sft": {"folder": str(folder / "sft")},
            "grpo": {"folder": str(folder / "grpo")},
            "report": {"file": str(folder / "report.html")},
        }
    )


class Page(HTMLParser):
    """What a browser would build: tags, attributes, text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def cfg(tmp_path):
    return make_run(tmp_path, num_tasks=12, samples=4)


def test_the_report_shows_every_part_of_a_run(cfg):
    html = run(cfg).read_text()
    page = Page(html)
    results = json.loads((Path(cfg.output_dir) / "results.json").read_text())
    for words in (
        "Policies",
        "sft → grpo",
        "fast_1.5, %",
        "How far the kernels come",
        "How fast the kernels are",
        "Supervised fine-tuning",
        "Share of completions",
        "By category",
        "softmax",
        "Sample kernels",
        "library_call: torch.relu (line 5)",
        "Two elementwise operators over one tensor",
        "'int64' was not declared",
        "AMD EPYC x2 | no GPU",
    ):
        assert words in page.text, words
    value = results["policies"]["grpo"]["figures"]["correct"]["value"]
    assert f"{value:.1%}" in page.text
    assert page.tags.count("svg") == 6
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_report_needs_no_network_and_runs_nothing(cfg):
    html = run(cfg).read_text()
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(page.tags)
    assert all(value.startswith("#") for name, value in page.attributes if name in ("src", "href"))
    assert "url(http" not in html and "@import" not in html


def test_completions_cannot_act_in_the_report(cfg):
    records = {name: list(Ledger(Path(cfg.eval.folder) / name / "records")) for name in ("base", "sft")}
    task = Task(id="<b onclick=alert(1)>", source=HOSTILE)
    records["grpo"] = [
        make_record("grpo", task, 0, "correct", 2.0, completion=HOSTILE),
        make_record("grpo", task, 1, "illegal", completion=HOSTILE),
        make_record("grpo", task, 2, "incorrect", completion=HOSTILE),
        make_record("grpo", task, 3, "no_kernel", completion=HOSTILE.replace("```", "")),
    ]
    results = json.loads((Path(cfg.output_dir) / "results.json").read_text())
    page = Page(render(results, records))
    assert not {"script", "img", "b onclick=alert(1)"} & set(page.tags) and page.tags.count("style") == 1 + 2
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for words in ("<script>alert(1)</script>", "{{ 7 * 7 }}", "<img src=x onerror=alert(1)>", "</style><style>@import"):
        assert words in page.text, words


def test_highlighting_keeps_the_source():
    kernel = ANSWER.split("```python\n")[1].removesuffix("```\n")
    for source in (kernel, "x = '''", 'a = """b', "  indented", "", "\t<&>'\""):
        assert "".join(Page(highlight(source)).words).strip("\n") == source.strip("\n")
    assert "#include" in highlight(kernel)
    long = highlight("x" * 1_000_000)
    assert len(long) < 50_000 and "980000" in long


def test_sample_kernels_are_the_best_the_typical_failures_and_the_cheats():
    a, b = (Task(id=id, source=REFERENCE) for id in "ab")
    records = {
        "sft": [make_record("sft", a, 0, "illegal")],
        "grpo": [
            make_record("grpo", a, 0, "correct", 1.5),
            make_record("grpo", a, 1, "correct", 3.0),
            make_record("grpo", b, 0, "correct", 2.0),
            make_record("grpo", b, 1, "unbuilt"),
            make_record("grpo", b, 2, "incorrect"),
            make_record("grpo", b, 3, "incorrect"),
            make_record("grpo", b, 4, "no_kernel"),
        ],
    }
    shown = [(sample.title, sample.record.id) for sample in choose_samples(records)]
    assert shown == [
        ("Best", "eval/grpo/a/1"),
        ("Best", "eval/grpo/b/0"),
        ("Typical failure (2 of 7 samples)", "eval/grpo/b/2"),
        ("Typical failure (1 of 7 samples)", "eval/grpo/b/1"),
        ("Typical failure (1 of 7 samples)", "eval/grpo/b/4"),
        ("Illegal", "eval/sft/a/0"),
    ]


def test_sections_of_stages_that_did_not_run_are_left_out(cfg):
    for stage in ("sft", "grpo"):
        Path(cfg[stage].folder, "log.jsonl").unlink()
    page = Page(run(cfg).read_text())
    assert "Supervised fine-tuning" not in page.text and "GRPO" not in page.words
    assert page.tags.count("svg") == 2


def test_a_policy_that_never_was_right_has_a_report(cfg):
    results = json.loads((Path(cfg.output_dir) / "results.json").read_text())
    results["policies"] = {"base": results["policies"]["base"]}
    results["comparisons"] = []
    page = Page(render(results, {"base": list(Ledger(Path(cfg.eval.folder) / "base" / "records"))}))
    assert "0.0%" in page.text and "How fast" not in page.text


def test_no_results_is_one_clear_line(cfg):
    Path(cfg.output_dir, "results.json").unlink()
    with pytest.raises(UserError, match=r"results\.json is not there; run kernelrl eval first"):
        run(cfg)
