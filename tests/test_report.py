"""The report: one file, everything in it, and nothing a completion says can act."""

import base64
import csv
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from browser import CHROMIUM, Browser
from kernelrl.errors import UserError
from kernelrl.eval.figure import Settings
from kernelrl.eval.metrics import compare, summarize
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
        bound_ms=0.2 if speedup else None,
        speedup=Speedup(median=speedup, low=0.93 * speedup, high=1.06 * speedup, pairs=11) if speedup else None,
        build=Build(ok=status != "compile_error", seconds=0.4, cached=False, units=1),
        feedback={
            "incorrect": "Trial 0: outputs differ from the reference.\nexpected 2.7341, got 4.1011 at [0, 3].",
            "compile_error": "error: 'int64' was not declared in this scope; did you mean 'int64_t'?",
        }.get(status, ""),
    )
    return Record.of(
        id=f"eval/{policy}/{task.id}/{index}",
        policy=policy,
        prompt=f"[user]\nRewrite this program as one C++ with OpenMP kernel, `ModelNew`.\n```python\n{task.source}```",
        completion=completion or text,
        verdict=verdict,
        rewards={"rule": float(verdict.legal), "correct": float(verdict.correct), "speedup": 0.2},
        reward=1.1 if verdict.correct else 0.0,
        machine="AMD EPYC x2",
    )


def make_run(folder, num_tasks=40, samples=4):
    """What a finished run leaves behind, with made-up figures."""
    rng = np.random.default_rng(0)
    tasks = [
        Task(
            id=f"synthetic-{index:03}",
            source=f"{REFERENCE}# {index}\n",
            category=CATEGORIES[index % len(CATEGORIES)],
            level=index % 3 + 1,
        )
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
        policies[policy] = {"policy": policy, "folder": policy, **summarize(records[policy], tasks, SETTINGS)}
    names = list(chances)
    results = {
        "schema_version": 1,
        "tasks": [{"id": t.id, "digest": t.digest, "category": t.category, "level": t.level} for t in tasks],
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
            "report": {"file": str(folder / "report.html"), "files": False},
            "curate": {"folder": str(folder / "data")},
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
        "How far from the machine's limit",
        "How long they think",
        "Broken rules",
        "By category and level",
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
    assert page.tags.count("svg") == 8
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_the_report_needs_no_network_and_runs_its_own_script_alone(cfg):
    html = run(cfg).read_text()
    page = Page(html)
    assert not {"link", "img", "iframe", "object", "embed", "form"} & set(page.tags)
    assert all(value.startswith("#") for name, value in page.attributes if name in ("src", "href"))
    assert "url(http" not in html and "@import" not in html
    (policy,) = [value for name, value in page.attributes if name == "content" and "default-src" in value]
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashed = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert (
        len(scripts) == 1 and policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'"
    )


def hostile(cfg):
    """A page of completions, ids and categories that want to act."""
    records = {name: list(Ledger(Path(cfg.eval.folder) / name / "records")) for name in ("base", "sft")}
    results = json.loads((Path(cfg.output_dir) / "results.json").read_text())
    entry = results["tasks"][0]
    entry |= {"id": "<b onclick=alert(1)></script>", "category": "</script><img src=x onerror=alert(1)>"}
    task = Task(id=entry["id"], source=HOSTILE)
    records["grpo"] = [
        make_record("grpo", task, 0, "correct", 2.0, completion=HOSTILE),
        make_record("grpo", task, 1, "illegal", completion=HOSTILE),
        make_record("grpo", task, 2, "incorrect", completion=HOSTILE),
        make_record("grpo", task, 3, "no_kernel", completion=HOSTILE.replace("```", "")),
    ]
    return render(results, records)


def test_completions_cannot_act_in_the_report(cfg):
    page = Page(hostile(cfg))
    honest = Page(run(cfg).read_text())
    assert page.tags.count("script") == honest.tags.count("script")
    assert not {"img", "b onclick=alert(1)"} & set(page.tags)
    assert page.tags.count("style") == 1 + page.tags.count("svg")
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    for words in ("<script>alert(1)</script>", "{{ 7 * 7 }}", "<img src=x onerror=alert(1)>", "</style><style>@import"):
        assert words in page.text, words


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of a run."""
    return run(make_run(tmp_path_factory.mktemp("written"), num_tasks=12, samples=4))


SHOWN = "[...document.querySelectorAll('#explorer tbody tr')].map(row => row.innerText.split('\\t'))"
OPENED = (
    "new Promise(done => { const look = () => document.querySelector('#viewer .diff') ? done(true) : "
    "setTimeout(look, 20); look() })"
)


def test_the_table_of_tasks_sorts_filters_and_opens_kernels(written, browser):
    browser.open(f"file://{written}")
    first = browser.evaluate(SHOWN)
    assert len(first) == 12 and first[0][:3] == ["synthetic-000", "elementwise", "1"]
    browser.evaluate("document.querySelectorAll('#explorer th')[8].click()")
    best = [float(row[8].rstrip("×")) for row in browser.evaluate(SHOWN) if row[8] != "–"]
    assert best == sorted(best, reverse=True) and len(best) > 3
    browser.evaluate("find.value = 'SOFT'; find.dispatchEvent(new Event('input'))")
    assert {row[1] for row in browser.evaluate(SHOWN)} == {"softmax"}
    assert browser.evaluate("document.getElementById('count').textContent") == "3 of 12 tasks"
    browser.evaluate("document.querySelector('#explorer button').click()")
    assert browser.evaluate(OPENED)
    words = browser.evaluate("viewer.innerText")
    assert "correct" in words and "load_inline" in words and "from the left to the right" in words
    assert browser.errors == []


def test_the_page_fits_a_phone_and_follows_the_theme(written, browser):
    browser.open(f"file://{written}")
    colors = []
    for theme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        colors.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1]
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    browser.call("Emulation.clearDeviceMetricsOverride")


TITLES = """
[...document.querySelectorAll('svg')].flatMap((svg, plot) => [...svg.querySelectorAll('text')]
  .filter(text => /700|bold/.test(text.getAttribute('style')))
  .map(text => { const box = text.getBoundingClientRect(); return [plot, box.left, box.right, box.top, box.bottom] }))
"""


def test_titles_of_neighbouring_plots_do_not_overlap(written, browser):
    browser.open(f"file://{written}")
    titles = browser.evaluate(TITLES)
    assert len(titles) > 12
    for a, b in itertools.combinations(titles, 2):
        apart = a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1] or a[4] <= b[3] + 2 or b[4] <= a[3] + 2
        assert apart, (a, b)


def test_what_a_completion_says_stays_text_in_the_viewer(cfg, browser, tmp_path):
    (tmp_path / "hostile.html").write_text(hostile(cfg))
    browser.open(f"file://{tmp_path}/hostile.html")
    browser.evaluate("document.querySelector('#explorer button').click()")
    assert browser.evaluate(OPENED)
    assert "<img src=x onerror=alert(1)>" in browser.evaluate("viewer.innerText")
    assert browser.evaluate("document.querySelectorAll('img, b[onclick]').length") == 0
    assert browser.errors == []


def test_figures_and_tables_are_files_too(cfg):
    cfg.report.files = True
    folder = run(cfg).with_name("report_files")
    assert {path.suffix for path in folder.iterdir()} == {".svg", ".pdf", ".csv", ".md", ".tex"}
    plot = (folder / "speedups_by_policy.svg").read_text()
    assert "#2f6fde" in plot and "#0405" not in plot and "#010101" not in plot
    assert (folder / "speedups_by_policy.pdf").read_bytes().startswith(b"%PDF")
    rows = list(csv.reader((folder / "levels.csv").open()))
    assert rows[0] == [
        "level",
        *(f"{name}: {it}" for name in ("base", "sft", "grpo") for it in ("correct, %", "speedup, ×")),
    ]
    assert [row[0] for row in rows[1:]] == ["1", "2", "3"]
    markdown, latex = (folder / "levels.md").read_text(), (folder / "levels.tex").read_text()
    assert markdown.splitlines()[1].startswith("| --- | ---: |") and latex.splitlines()[1] == r"\toprule"
    assert r"base: correct, \% & base: speedup, $\times$" in latex


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
    assert page.tags.count("svg") == 4


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
