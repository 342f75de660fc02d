"""The template teacher: kernels in both dialects, at several levels, for whatever traces."""

from __future__ import annotations

import re

import pytest
from omegaconf import OmegaConf

from kernelrl import dialects
from kernelrl.candidate import Candidate, Completion
from kernelrl.data.graph.chain import make_task
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.teachers import make_teacher, template
from kernelrl.data.teachers.template.levels import LEVELS
from kernelrl.data.workers import Limits
from kernelrl.executor.api import Request
from kernelrl.task import Task

SMALL = {"min_elements": 2048, "max_elements": 2**14, "max_flops": 2**22}
DIALECTS = ("cpp", "triton")
TASK = """\
import torch
import torch.nn.functional as F
from torch import nn

N = 12
{ranges}

class Model(nn.Module):
{init}    def forward(self, {arguments}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{sizes}]
"""


def task(body, inputs="torch.randn(N, 40)", arguments="x", init="", sizes="", ranges=""):
    source = TASK.format(body=body, inputs=inputs, arguments=arguments, init=init, sizes=sizes, ranges=ranges)
    return Task(id=body, source=source)


def propose(task, dialect="cpp"):
    return make_teacher(OmegaConf.create({"name": "template"}), dialect).propose(task, dialect)


LINEAR = "    def __init__(self, width):\n        super().__init__()\n        self.f = nn.Linear(width, 24)\n\n"
SEQUENTIAL = LINEAR.replace("nn.Linear(width, 24)", "nn.Sequential(nn.Linear(width, 24), nn.ReLU())")
WIDE = """\
class Wide(nn.Module):
    expansion = 1

    def __init__(self, width):
        super(Wide, self).__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.dense(x))
"""
CLASS = LINEAR.replace("nn.Linear(width, 24)", "self.make(Wide, width)") + (
    "    def make(self, kind, width, count=2):\n"
    "        return nn.Sequential(*[kind(width * kind.expansion) for _ in range(count)])\n\n"
)
RANGES = 'SHAPE_RANGES = {"N": (2, 20)}\n'
PROGRAMS = {
    "activation": task("return F.gelu(torch.tanh(x)) * F.softplus(x)"),
    "softmax": task("return torch.softmax(x, dim=0) + F.log_softmax(x, dim=1)"),
    "normalisation": task("return F.layer_norm(x, (40,)) - F.normalize(x, dim=1)"),
    "reduce": task("return torch.var(x, dim=1), torch.amax(x, dim=0), torch.argmax(x, dim=1)"),
    "scan": task("return torch.cumsum(x, dim=1), torch.cummax(x, dim=0).values"),
    "loss": task("return F.mse_loss(x, y)", "torch.randn(N, 40), torch.randn(N, 40)", "x, y"),
    "matmul": task("return torch.relu(self.f(x))", init=LINEAR, sizes="40", ranges=RANGES),
    "sequential": task("return self.f(x)", init=SEQUENTIAL, sizes="40"),
    "half": task("return torch.exp(-x.abs()).sum(1)", "torch.randn(N, 40, dtype=torch.bfloat16)", ranges=RANGES),
    "index": task("return torch.gather(x, 1, i)", "torch.randn(N, 40), torch.randint(40, (N, 8))", "x, i"),
    "scatter": task(
        "return torch.scatter_add(b, 1, i, x)",
        "torch.randn(N, 40), torch.randint(16, (N, 40)), torch.randn(N, 16)",
        "x, i, b",
    ),
    "convolution": task(
        "return F.max_pool2d(F.conv2d(x, w, padding=1), 2)",
        "torch.randn(2, 3, 12, 12), torch.randn(8, 3, 3, 3)",
        "x, w",
    ),
    "resize": task('return F.interpolate(x, size=(9, 7), mode="bilinear")', "torch.randn(2, 3, 12, 12)"),
    "running": task("return self.f(x)", init=LINEAR.replace("Linear(width, 24)", "BatchNorm1d(width)"), sizes="40"),
    "class": task("return self.f(x)", init=CLASS, sizes="40", ranges=WIDE),
    "extremes": task("return *torch.max(x, dim=1), torch.min(x, 0).values"),
    "split": task("a, b = x.split([16, 24], dim=1)\n        return a.sum(1) * b[:, 0]"),
    "constant": task("return torch.min(x, torch.tensor(0.5))"),
    "attention": task("return F.scaled_dot_product_attention(x, x, x, is_causal=True)", "torch.randn(2, 2, 20, 16)"),
    "views": task(
        "return torch.cat([x.t()[::2], y.flatten(1)[:, :12]])", "torch.randn(12, 40), torch.randn(5, 4, 6)", "x, y"
    ),
    "optimiser": task("v = 0.9 * y + x\n        return w - 0.1 * v, v", ", ".join(["torch.randn(N)"] * 3), "x, y, w"),
}


def judge(requests, make_executor, cache):
    settings = {"draws": "tests", "timing": False, "trials": 2, "cache_dir": str(cache), "run_timeout_s": 60.0}
    with make_executor(settings) as executor:
        return executor.evaluate(requests)


def requests_of(each, dialect, which):
    proposals = propose(each, dialect)
    proposals = [proposals[-level % len(proposals)] for level in which]
    candidates = [Candidate(source=proposal.source, dialect=dialect) for proposal in proposals]
    return [Request(task=each, candidate=candidate, dialect=dialect) for candidate in candidates]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_kernels_are_correct_on_hidden_inputs(dialect, kept_executor, executor_cache):
    names = list(PROGRAMS)
    requests = [
        request
        for number, name in enumerate(names)
        for request in requests_of(PROGRAMS[name], dialect, {0, number % len(LEVELS)})
    ]
    verdicts = judge(requests, kept_executor, executor_cache)
    wrong = [(r.task.id, v.status, v.feedback) for r, v in zip(requests, verdicts, strict=True) if not v.correct]
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_most_synthesised_tasks_get_a_correct_kernel(dialect, kept_executor, executor_cache):
    stream = tasks(1, Dials(**SMALL))
    drawn = [next(stream) for _ in range(12)]
    requests = [request for each in drawn if propose(each, dialect) for request in requests_of(each, dialect, [0])]
    correct = sum(verdict.correct for verdict in judge(requests, kept_executor, executor_cache))
    assert correct >= 0.9 * len(drawn)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_levels_differ_and_say_what_they_do(dialect):
    proposals = propose(PROGRAMS["matmul"], dialect)
    assert len({proposal.source for proposal in proposals}) == len(proposals) > 1
    assert len({proposal.reasoning for proposal in proposals}) == len(proposals)
    for proposal in proposals:
        assert dialects.get(dialect).find_violations(proposal.source) == []
        parsed = Completion.parse(proposal.completion())
        assert (parsed.reasoning, parsed.source) == (proposal.reasoning, proposal.source)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_names_what_the_program_names(dialect):
    """No step is called by the graph's bookkeeping, no size or value by a name that the prompt lacks."""
    for each in PROGRAMS.values():
        for proposal in propose(each, dialect):
            assert not re.search(r"\b(output|getitem\w*|sym_size|[ts]\d+)\b", proposal.reasoning), proposal.reasoning


def test_the_traffic_that_reasoning_states_is_that_of_the_schedule():
    """An array of 12 x 40 floats has 1920 bytes, a mask 480: tanh, gelu, exp and log1p read and write one array each,
    gt reads one and writes a mask, where reads two and the mask, the product reads two; fused, one in and one out."""
    fastest, _, naive = propose(PROGRAMS["activation"])
    apart = 4 * 3840 + (1920 + 480) + (3 * 1920 + 480) + 3 * 1920
    assert f"{apart / 1000:.1f} kB" in fastest.reasoning and "3.8 kB" in fastest.reasoning
    assert f"{apart / 1000:.1f} kB" in naive.reasoning and "1-7. tanh, gelu, exp, log1p, gt" in naive.reasoning
    first, *_ = propose(PROGRAMS["softmax"])  # along rows and along columns: the input twice, sums of columns once
    assert re.search(r"[\d.]+ kB", first.reasoning) and "step 1" in first.reasoning


def test_reasoning_counts_every_sum_and_says_what_is_only_copied():
    """Sums along a middle axis are one for each place of the other axes; a weight that is transposed is traffic."""
    middle = task("return x.sum(1)", "torch.randn(2, 32, 16, 16)")
    for dialect in DIALECTS:
        assert "over 2 x 16 x 16, the sum of 32 each" in propose(middle, dialect)[0].reasoning
    tiled = propose(PROGRAMS["matmul"])[0].reasoning
    assert "1. linear: over 40 x 24, a copy in the order of later reads." in tiled
    assert "over x.shape[0], summing 40 products for each of 24 neighbours" in tiled
    assert "3.1 kB more than a loop for each operator would" in tiled


@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_speaks_of_doubles_where_the_kernel_has_them(dialect):
    for each in PROGRAMS.values():
        for proposal in propose(each, dialect):
            has_doubles = re.search(r"\bdouble\b|float64", proposal.source) is not None
            assert ("kept in double" in proposal.reasoning) == has_doubles, proposal.reasoning


def test_the_blocks_that_reasoning_states_are_those_of_the_kernel():
    fastest, *_ = propose(PROGRAMS["matmul"], "triton")
    m, n, k = (int(re.search(rf"\b{name}=(\d+)", fastest.source).group(1)) for name in "MNK")
    assert f"tiles of {m} x {n} sums, {k} products at a time: {4 * (m + n) * k / 1000:.1f} kB" in fastest.reasoning
    block = re.search(r"(\d+) neighbouring sums at a time take (\d+) bytes", propose(PROGRAMS["matmul"])[0].reasoning)
    assert f"[{block.group(1)}];" in propose(PROGRAMS["matmul"])[0].source
    assert int(block.group(2)) == 4 * int(block.group(1))


def test_fusing_leaves_one_loop_nest():
    fastest, _, naive = propose(PROGRAMS["activation"])
    assert fastest.source.count("omp parallel") == 1 < naive.source.count("omp parallel")


def test_the_same_task_gets_the_same_proposals():
    assert propose(PROGRAMS["attention"]) == propose(PROGRAMS["attention"])


@pytest.mark.parametrize(
    "body",
    [
        "return x @ x",  # does not run
        "return torch.linalg.qr(x)[0]",  # no loops for it
        "return x * x.sum().item()",  # depends on values
        "return x, 3",  # not a tensor
        "return x + torch.tensor([1.0, 2.0]).sum()",  # a tensor that is written down
    ],
)
def test_no_proposal_for_what_cannot_be_written(body):
    assert propose(task(body)) == []


@pytest.mark.slow
def test_a_program_that_hangs_or_crashes_while_it_is_traced_costs_only_its_own_kernels(monkeypatch):
    monkeypatch.setattr(template, "LIMITS", Limits(timeout_s=15.0, memory_mb=8192, workers=1))
    teacher = make_teacher(OmegaConf.create({"name": "template"}), "cpp")
    right = task("return torch.tanh(x)")
    bodies = ("import os; os.abort()", "import time; time.sleep(1000)", "return torch.linalg.qr(x)[0]")
    found = list(teacher.proposals([right, *map(task, bodies), right], "cpp"))
    assert found == [(right, proposal) for proposal in teacher.propose(right, "cpp")] * 2
    reasons = "its worker process died", "out of time", "no loops for aten.linalg_qr"
    unwritten = zip(teacher.summary()["unwritten"], reasons, strict=True)
    assert all(why.startswith(reason) for why, reason in unwritten), teacher.summary()


def test_chains_keep_their_own_kernels_in_cpp_and_get_others_in_triton():
    chain = make_task(("relu", "softmax"), 64, 32)
    assert all("const float* a = X + r * N;" in proposal.source for proposal in propose(chain))
    assert len(propose(chain, "triton")) > 1
