"""Teachers: language models behind a real server and in the process, Inductor, translation."""

import json
import logging
import re

import pytest
from omegaconf import OmegaConf
from transformers import Qwen3Config, Qwen3ForCausalLM

from chat_server import BatchHandler, answer, says
from conftest import REFERENCE, RIGHT
from kernelrl import dialects
from kernelrl.candidate import Candidate, Completion
from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.data.graph.chain import make_task
from kernelrl.data.tables import DRAWN_COLUMNS, PROPOSAL_COLUMNS, write_table
from kernelrl.data.teachers import make_teacher
from kernelrl.errors import UserError
from kernelrl.executor.api import Request
from kernelrl.policies.models import save_policy, train_tokenizer
from kernelrl.policies.prompts import build_prompt
from kernelrl.task import Given, Task

TASKS = [Task(id=f"t{index}", source=REFERENCE.replace("2.0", f"{index}.0"), category="loss") for index in range(4)]
KEY = "sk-a-secret-of-the-tests"
CATEGORIES = ("reduction", "normalisation", "matmul", "loss", "pooling")


KERNEL = f"```python\n{RIGHT}```"
GOOD = answer(f"<think>\nBound by memory.\n</think>\n{KERNEL}\n")


def llm(tmp_path, server=None, **changes):
    url = server.url if server else "http://127.0.0.1:9/v1"
    return teacher_of("llm", tmp_path, {"model": "m", "samples": 2, "retries": 2, "base_url": url} | changes)


def teacher_of(option, tmp_path, changes):
    cfg = compose_config("curate", [f"teacher={option}", f"teacher.cache_dir={tmp_path}/answers"]).teacher
    return make_teacher(OmegaConf.merge(cfg, {"seed": 0} | changes), "cpp")


def ask(teacher, tasks=TASKS):
    return list(teacher.proposals(tasks, "cpp"))


def test_an_endpoint_is_asked_once_for_each_sample(serve, tmp_path):
    server = serve(GOOD)
    teacher = llm(tmp_path, server, prices={"prompt": 2.0, "completion": 10.0}, concurrency=3)
    proposals = ask(teacher)
    assert [task.id for task, _ in proposals] == ["t0", "t0", "t1", "t1", "t2", "t2", "t3", "t3"]
    assert {(item.reasoning, item.source) for _, item in proposals} == {("Bound by memory.", RIGHT)}
    assert len(server.requests) == 8 and server.most <= 3
    path, _, body = server.requests[0]
    assert path == "/v1/chat/completions" and body["model"] == "m" and body["temperature"] == 0.8
    assert len({(str(body["messages"]), body["seed"]) for _, _, body in server.requests}) == 8
    summary = teacher.summary()
    assert (summary["answers"], summary["prompt_tokens"], summary["completion_tokens"]) == (8, 8000, 4000)
    assert summary["cost"] == pytest.approx(0.056)

    again = llm(tmp_path, server)
    assert [(task.id, item.source) for task, item in ask(again)] == [(task.id, item.source) for task, item in proposals]
    assert len(server.requests) == 8
    assert again.summary()["cached"] == 8 and again.summary()["prompt_tokens"] == 0


def test_an_interrupted_run_asks_for_the_rest_only(serve, tmp_path):
    server = serve(GOOD)
    stream = llm(tmp_path, server, concurrency=1).proposals(TASKS, "cpp")
    next(stream)
    stream.close()
    ask(llm(tmp_path, server))
    asked = [(str(body["messages"]), body["seed"]) for _, _, body in server.requests]
    assert len(set(asked)) == 8 and len(asked) <= 9  # one may have been under way when the stream was closed


def test_reasoning_is_taken_from_where_the_server_puts_it(serve, tmp_path):
    script = [
        answer(KERNEL, reasoning_content="Apart."),
        answer(f"In prose.\n{KERNEL}\nAnd why it is fast."),
        answer("No kernel."),
    ]
    teacher = llm(tmp_path, serve(*script), concurrency=1, samples=3)
    assert [item.reasoning for _, item in ask(teacher, TASKS[:1])] == ["Apart.", "In prose."]
    assert teacher.summary()["no_kernel"] == 1


def test_rate_limits_and_server_errors_are_tried_again(serve, tmp_path):
    server = serve((429, "{}"), (500, "{}"), GOOD)
    assert len(ask(llm(tmp_path, server, concurrency=1), TASKS[:1])) == 2
    assert len(server.requests) == 4


def test_what_failed_is_counted_and_asked_again_by_a_rerun(serve, tmp_path):
    server = serve((500, "{}"), (200, "no json"), (200, '{"choices": []}'), (400, "{}"), GOOD)
    teacher = llm(tmp_path, server, concurrency=1, samples=5, retries=0)
    assert len(ask(teacher, TASKS[:1])) == 1
    assert teacher.summary()["failed"] == {"HTTP 500": 1, "malformed answer": 2, "HTTP 400": 1}
    assert len(ask(llm(tmp_path, server, samples=5), TASKS[:1])) == 5
    assert len(server.requests) == 9


def test_a_slow_answer_is_a_failure_of_its_own(serve, tmp_path):
    teacher = llm(tmp_path, serve(GOOD, delay=3.0), samples=1, retries=0, timeout_s=0.2)
    assert ask(teacher, TASKS[:1]) == []
    assert teacher.summary()["failed"] == {"timeout": 1}


def test_a_limit_of_cost_leaves_questions_open(serve, tmp_path):
    """What was paid for is kept; the next run goes on with as much again."""
    server = serve(GOOD)
    priced = {"prices": {"prompt": 2.0, "completion": 10.0}, "concurrency": 1, "max_cost": 0.014}
    first = llm(tmp_path, server, **priced)
    answered = len(ask(first))
    assert 2 <= answered < 8 and first.unanswered == 8 - answered and first.questions == 8
    assert first.summary()["failed"] == {"teacher.max_cost reached": 8 - answered}
    assert len(ask(llm(tmp_path, server, **priced | {"max_cost": 1.0}))) == len(server.requests) == 8
    with pytest.raises(UserError, match=r"teacher.max_cost=1 needs teacher.prices.prompt and .completion"):
        llm(tmp_path, server, max_cost=1)


@pytest.mark.parametrize(("longest", "most"), [(1000, 0.015), (None, 0.002)])
def test_a_limit_of_cost_holds_where_an_answer_does_not_say_what_it_took(longest, most, serve, tmp_path):
    """It counts as long as it may be, or where that is not limited, as long as its text."""
    priced = {"prices": {"prompt": 2.0, "completion": 10.0}, "concurrency": 1, "max_cost": most}
    teacher = llm(tmp_path, serve(silent(GOOD)), max_new_tokens=longest, **priced)
    assert 2 <= len(ask(teacher)) < 8 and teacher.unanswered > 0
    assert teacher.summary()["cost"] is None


def silent(said):
    """The same answer, from a server that counts no tokens."""
    return 200, json.dumps({name: value for name, value in json.loads(said[1]).items() if name != "usage"})


def test_unknown_prices_and_tokens_are_unknown_costs(serve, tmp_path):
    teacher = llm(tmp_path, serve(silent(GOOD)), prices={"prompt": 1.0, "completion": 1.0})
    ask(teacher)
    assert teacher.summary()["cost"] is None and teacher.summary()["prompt_tokens"] is None


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(serve, tmp_path, monkeypatch, caplog):
    with pytest.raises(UserError, match=r"teacher.api_key_env=TEACHER_KEY: this environment variable is not set"):
        ask(llm(tmp_path, api_key_env="TEACHER_KEY"))
    monkeypatch.setenv("TEACHER_KEY", KEY)
    server = serve(GOOD)
    with caplog.at_level(logging.DEBUG):
        ask(llm(tmp_path, server, api_key_env="TEACHER_KEY"))
        refusing = serve((401, json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}})))
        with pytest.raises(UserError, match="refuses the key") as refused:
            ask(llm(tmp_path, refusing, api_key_env="TEACHER_KEY", seed=1))
    assert server.requests[0][1] == f"Bearer {KEY}"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in written and KEY not in str(refused.value)
    assert not any(KEY in record.getMessage() for record in caplog.records if record.name.startswith("kernelrl"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"teacher.base_url=http://127.0.0.1:9/v1 cannot be reached"),
        ({"model": None}, r"teacher.model is not set"),
        ({"samples": 0}, r"teacher.samples=0: at least 1"),
        ({"backend": "cloud"}, r"teacher.backend='cloud' is not known; choose transformers, vllm, endpoint"),
        ({"temperature": -1.0}, r"teacher.temperature=-1.0"),
    ],
)
def test_what_can_be_known_at_once_is_one_line(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        ask(llm(tmp_path, retries=0, **changes))


BATCHED = {"batch": {"questions": 4, "poll_s": 0.01}, "prices": {"prompt": 2.0, "completion": 10.0}}


def test_questions_go_up_in_batches_and_what_failed_in_one_is_asked_again(serve, tmp_path):
    server = serve(GOOD, GOOD, (500, "{}"), GOOD, handler=BatchHandler)
    server.looks += ["validating", "in_progress"]
    teacher = llm(tmp_path, server, **BATCHED)
    assert [task.id for task, _ in ask(teacher)] == ["t0", "t0", "t1", "t2", "t2", "t3", "t3"]
    assert len(server.batches) == 2 and [len(lines) for lines in server.files.values()] == [4, 4]
    line = json.loads(server.files["file-0"][0])
    assert (line["method"], line["url"], line["body"]["model"]) == ("POST", "/v1/chat/completions", "m")
    assert teacher.summary()["failed"] == {"HTTP 500": 1} and teacher.summary()["cost"] == pytest.approx(7 * 0.007)
    assert len(ask(llm(tmp_path, server, **BATCHED))) == 8
    assert [len(lines) for lines in server.files.values()] == [4, 4, 1]


def test_a_batch_that_a_killed_run_has_paid_for_is_waited_for(serve, tmp_path):
    """Its id is written down when it is begun; a server that fails in between costs nothing."""
    server = serve(GOOD, handler=BatchHandler)
    server.looks += ["gone"]
    first = llm(tmp_path, server, retries=0, **BATCHED)
    handler = server.RequestHandlerClass
    server.RequestHandlerClass = type("Failing", (handler,), {"do_GET": lambda self: self.reply(503, "{}")})
    assert ask(first, TASKS[:2]) == [] and first.summary()["failed"] == {"HTTP 503": 4}
    server.RequestHandlerClass = handler
    assert len(ask(llm(tmp_path, server, **BATCHED), TASKS[:2])) == 4
    assert len(server.batches) == 1 and not list((tmp_path / "answers" / "batches").iterdir())


def test_a_batch_that_could_cost_more_than_is_left_is_not_begun(serve, tmp_path, caplog):
    server = serve(GOOD, handler=BatchHandler)
    priced = BATCHED | {"max_new_tokens": 1000, "max_cost": 0.06}
    with caplog.at_level(logging.INFO):
        teacher = llm(tmp_path, server, **priced)
        assert len(ask(teacher)) == 4 and teacher.unanswered == 4  # 4 questions may cost 0.04 and their prompts
    (said,) = [record.getMessage() for record in caplog.records if "if all are asked" in record.getMessage()]
    assert "8 questions if all are asked" in said and "at most 8,000 in their answers: the cost is at most 0.09" in said


def test_a_server_without_batches_and_batches_without_a_cache(serve, tmp_path):
    class Missing(BatchHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))  # else closing resets the connection
            self.reply(404, "{}")

    with pytest.raises(UserError, match=r"has no batches \(HTTP 404\); set teacher.batch=null"):
        ask(llm(tmp_path, serve(GOOD, handler=Missing), **BATCHED))
    with pytest.raises(UserError, match=r"teacher.batch needs teacher.cache_dir"):
        ask(llm(tmp_path, serve(GOOD), **BATCHED, cache_dir=None))


def explain(tmp_path, server, **changes):
    verified = curation(tmp_path / "published", "cpp", RIGHT, "correct")
    given = {"model": "m", "samples": 1, "retries": 0, "base_url": server.url, "kernels": str(verified)}
    return teacher_of("explain", tmp_path, given | changes)


def test_an_explanation_is_kept_with_the_kernel_that_was_written_from_it(serve, tmp_path):
    """The kernel is shown to whoever explains it, and not to whoever writes it again."""

    def reply(body):
        return answer("Divide the rows.") if "Write down the reasoning" in says(body) else GOOD

    server = serve(reply)
    teacher = explain(tmp_path, server, concurrency=1)
    proposals = ask(teacher)  # the last task has no kernel, and is not asked about
    assert [(task.id, item.reasoning, item.source) for task, item in proposals] == [
        (f"t{number}", "Divide the rows.", RIGHT) for number in range(3)
    ]
    asked, again = (says(body) for _, _, body in server.requests[:2])
    assert RIGHT.strip() in asked and TASKS[0].source.strip() in asked
    assert RIGHT.strip() not in again and again.endswith("This is how to go about it:\nDivide the rows.")
    assert teacher.questions == teacher.summary()["answers"] == 6 and teacher.name == "explain: m"


@pytest.mark.parametrize(
    ("explanation", "kernel", "why"),
    [
        (f"It reads:\n{RIGHT}", GOOD, "quotes_the_kernel"),
        ("<think>\nOnly thought.\n</think>", GOOD, "no_reasoning"),
        ("Divide the rows.", answer("I cannot."), "no_kernel"),
    ],
)
def test_what_no_explanation_or_no_kernel_comes_of_is_counted(explanation, kernel, why, serve, tmp_path):
    server = serve(lambda body: answer(explanation) if "Write down the reasoning" in says(body) else kernel)
    teacher = explain(tmp_path, server)
    assert ask(teacher) == [] and teacher.summary()[why] == 3


def test_what_is_to_be_explained_must_be_given(serve, tmp_path):
    with pytest.raises(UserError, match=r"teacher.kernels is not set; give the folder `verified`"):
        explain(tmp_path, serve(GOOD), kernels=None)


def test_a_local_model_answers_through_the_same_class(tmp_path):
    tokenizer = train_tokenizer([REFERENCE, GOOD[1]], bpe_tokens=300, line_tokens=50)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    save_policy(Qwen3ForCausalLM(config), tokenizer, tmp_path / "model")
    changes = {"model": str(tmp_path / "model"), "style": "short", "max_new_tokens": 8, "samples": 2}
    teacher = teacher_of("local_llm", tmp_path, changes)
    assert ask(teacher, TASKS[:2]) == []  # its weights are random
    first = teacher.summary()
    assert first["answers"] == first["no_kernel"] == 4 and first["completion_tokens"] > 0
    again = teacher_of("local_llm", tmp_path, changes)
    ask(again, TASKS[:2])
    assert again.summary()["cached"] == 4


def test_prompts_show_an_example_of_the_tasks_category():
    for category, name in (("loss", "square_error"), ("normalization", "softmax_rows"), ("unheard of", "relu_scale")):
        (message,) = build_prompt(TASKS[0].model_copy(update={"category": category}), "triton", "category")
        assert f"def {name}(" in message["content"]
    for dialect in ("cpp", "cuda", "triton"):
        for category in CATEGORIES:
            assert dialects.get(dialect).find_violations(dialects.example(dialect, category)[1]) == []


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["cpp", "triton"])
def test_the_examples_are_correct(dialect, kept_executor, executor_cache):
    requests = []
    for category in CATEGORIES:
        program, kernel = dialects.example(dialect, category)
        task = Task(id=category, source=program)
        requests.append(Request(task=task, candidate=Candidate(source=kernel, dialect=dialect), dialect=dialect))
    assert judge(requests, kept_executor, executor_cache) == dict.fromkeys(CATEGORIES, "correct")


def judge(requests, make_executor, cache):
    with make_executor({"draws": "tests", "timing": False, "cache_dir": str(cache), "run_timeout_s": 60.0}) as executor:
        verdicts = executor.evaluate(requests)
    return {verdict.task_id: verdict.feedback if not verdict.correct else "correct" for verdict in verdicts}


def program(forward, inputs, init="pass", arguments="", before=""):
    return f"""\
import torch
import torch.nn.functional as F
from torch import nn
{before}
class Model(nn.Module):
    def __init__(self{", " + arguments if arguments else ""}):
        super(Model, self).__init__()
        {init}

    def forward(self, {", ".join("xyz"[: inputs.count("torch.") or 1])}):
        return {forward}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return [{"16" if arguments else ""}]
"""


MATRIX = "torch.randn(64, 96)"
CONVERTIBLE = {
    "parameters": program(
        "torch.softmax(self.a[0](x), 1)", "torch.randn(64, 16)", "self.a = nn.Sequential(nn.LayerNorm(n))", "n"
    ),
    "running_statistics": program("F.relu(self.b(x))", "torch.randn(8, 16, 5, 5)", "self.b = nn.BatchNorm2d(n)", "n"),
    "several_outputs": program('{"sum": x.sum(0), "all": [x.t() + 1, x.argmax(1)]}', MATRIX),
    "pooling": program("F.avg_pool2d(F.max_pool2d(x, 2), 3, 1, 1)", "torch.randn(2, 4, 12, 12)"),
    "index": program("x[:, y] * 2", f"{MATRIX}, torch.randint(0, 96, (5,))"),
    "hidden_shape": program(
        "F.silu(x) * y + x.mean(1, keepdim=True)",
        "torch.randn(n, 40), torch.randn(40)",
        before="n = 33\nSHAPE_RANGES = {'n': (2, 70)}",
    ),
    "one_sum": program("F.l1_loss(x, y)", "torch.randn(300, 400), torch.randn(300, 400)"),
    "two_kernels": program("(x - x.mean()) / (x.std() + 1)", MATRIX),
    "two_long_lines": program("torch.softmax(x, 1)", "torch.randn(2, 3000)"),  # a line is shared out among threads
}


HALF = "torch.randn(32, 48, dtype=torch.float16)"
LIBRARY = {
    "products": program(
        "torch.baddbmm(z, x, y @ self.a.weight, beta=0.5) + self.a(z)",
        "torch.randn(3, 20, 40), torch.randn(3, 40, 16), torch.randn(3, 20, 16)",
        "self.a = nn.Linear(n, n)",
        "n",
    ),
    "half_products": program("F.linear(x.clamp(-1, 1), y, z)", f"{HALF}, {HALF}, torch.randn(32, dtype=torch.float16)"),
    "bfloat16": program("F.gelu(x @ x.t()).amax(1) + y", "torch.randn(70, 30).bfloat16(), torch.ones(70).bfloat16()"),
    "convolution_1d": program("F.conv1d(x, y, None, 2, 3, 2)", "torch.randn(3, 6, 40), torch.randn(5, 6, 4)"),
    "convolution_2d": program(
        "self.a(x)", "torch.randn(2, 16, 9, 21)", "self.a = nn.Conv2d(n, 24, (3, 2), (2, 1), (1, 0), groups=2)", "n"
    ),
    "depthwise": program("F.conv2d(x, y, None, 1, 1, 1, 8)", "torch.randn(2, 8, 9, 20), torch.randn(8, 1, 3, 3)"),
    "convolution_3d": program(
        "F.conv3d(x, y, z)", "torch.randn(2, 3, 5, 6, 7), torch.randn(5, 3, 2, 3, 2), torch.ones(5)"
    ),
    "transposed": program(
        "F.conv_transpose2d(x, y, z, 2, 1, 1)", "torch.randn(2, 6, 7, 5), torch.randn(6, 4, 3, 3), torch.randn(4)"
    ),
    "scans": program("x.cumsum(1) + y.cumprod(0)", "torch.randn(40, 70), torch.rand(40, 70)"),
    "logcumsumexp": program("torch.logcumsumexp(x, 1)", "torch.randn(4, 50, 3)"),
    "extremes": program("(*x.cummax(1), x.cummin(0).values)", "torch.randn(40, 70)"),
    "nearest": program("F.interpolate(x, scale_factor=2.0) * 2", "torch.randn(2, 3, 6, 7)"),
}


def inductor(dialect, levels=None, timeout_s=120.0):
    cfg = compose_config("curate", ["teacher=inductor"]).teacher
    cfg.workers, cfg.timeout_s = 2, timeout_s
    cfg.levels = levels or {"fused": {}}
    return make_teacher(cfg, dialect)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["cpp", "triton"])
def test_inductors_kernels_stand_alone(dialect, kept_executor, executor_cache):
    tasks = [Task(id=name, source=source) for name, source in (CONVERTIBLE | LIBRARY).items()]
    tasks.append(make_task(("add_bias", "gelu", "layer_norm", "logsumexp"), 96, 200))
    teacher = inductor(dialect)
    proposals = list(teacher.proposals(tasks, dialect))
    assert teacher.summary() == {"tasks": len(tasks), "converted": len(tasks), "not_converted": {}}
    assert [task.id for task, _ in proposals] == [task.id for task in tasks]
    requests = []
    for task, proposal in proposals:
        assert dialects.get(dialect).find_violations(proposal.source) == []
        assert Completion.parse(proposal.completion()).source == proposal.source
        assert "Plan:" in proposal.reasoning and proposal.level == "fused"
        candidate = Candidate(source=proposal.source, dialect=dialect)
        requests.append(Request(task=task, candidate=candidate, dialect=dialect))
    assert judge(requests, kept_executor, executor_cache) == {task.id: "correct" for task in tasks}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["cpp", "triton"])
def test_inductors_reasoning_names_what_its_kernel_names(dialect):
    """An array of 64 x 96 floats has 24.6 kB: two operators read one and write one each, one step does it once."""
    plain = Task(id="plain", source=program("x * 0.5 + 1.0", MATRIX))
    hidden = Task(id="hidden", source=CONVERTIBLE["hidden_shape"])
    (_, first), (_, second) = inductor(dialect).proposals([plain, hidden], dialect)
    assert "Run one by one they would move 98.3 kB through memory; in 1 step it is 49.2 kB." in first.reasoning
    reasoning, source = second.reasoning, second.source
    assert "x.shape[0] may differ from call to call" in reasoning and not re.search(r"\bs\d+\b", reasoning)
    assert set(re.findall(r"\bbuf\d+\b", reasoning)) <= set(re.findall(r"\bbuf\d+\b", source))


@pytest.mark.slow
def test_inductor_says_what_it_cannot_convert_and_is_not_held_up():
    hostile = {
        "extern kernel: sort": program("x.sort(1)[0]", MATRIX),
        "crashed": program("x", MATRIX, init="import os; os._exit(3)"),
        "torch.export: GuardOnDataDependentSymNode": program("x + 1 if x.sum() > 0 else x", MATRIX),
        "a changed input": program("x.add_(1)", MATRIX),
    }
    teacher = inductor("cpp", timeout_s=600.0)
    assert list(teacher.proposals([Task(id=name, source=source) for name, source in hostile.items()], "cpp")) == []
    reasons = teacher.summary()["not_converted"]
    assert sum(reasons.values()) == len(hostile)
    assert reasons.keys() >= {"extern kernel: sort", "crashed", "a changed input"}
    impatient = inductor("cpp", timeout_s=1.0)
    sleeps = Task(id="sleeps", source=program("x", MATRIX, init="import time; time.sleep(600)"))
    assert list(impatient.proposals([sleeps], "cpp")) == []
    assert impatient.summary()["not_converted"] == {"took too long": 1}


@pytest.mark.slow
def test_levels_differ_in_how_much_is_fused():
    levels = compose_config("curate", ["teacher=inductor"]).teacher.levels
    task = make_task(("gelu", "layer_norm", "tanh"), 96, 200)
    fused, separate = inductor("triton", levels).propose(task, "triton")
    assert (fused.level, separate.level) == ("fused", "separate")
    assert fused.source.count("@triton.jit") < separate.source.count("@triton.jit")
    steps = re.findall(r"^\d+\. (.*) (?:alone|in one loop) over", separate.reasoning, re.MULTILINE)
    assert steps[-3:] == ["var_mean + add + rsqrt", "mul", "tanh"], "what a step reads is not its own work"
    assert "are kept apart at this level: buf" in separate.reasoning and "in different shapes" not in separate.reasoning


def curation(folder, dialect, source, status):
    """The verified proposals of a curation: one kernel for each of three tasks, of which the first is held out."""
    splits = dict(zip(TASKS[:3], ("heldout", "train", "train"), strict=True))
    drawn = [{"split": split, "task": task.model_dump_json()} for task, split in splits.items()]
    write_table(folder / "tasks.parquet", drawn, DRAWN_COLUMNS)
    common = {
        "dialect": dialect,
        "reasoning": "Why.",
        "kernel": source,
        "verdict": {"status": status},
    }
    rows = [{"task_id": task.id, "split": split, **common} for task, split in splits.items()]
    write_table(folder / "proposals.parquet", rows, PROPOSAL_COLUMNS)
    return folder


def test_translation_shows_one_kernel_and_asks_for_the_other(tmp_path):
    cuda = curation(tmp_path / "cuda", "cuda", dialects.get("cuda").example, "not_run")
    cpp = curation(tmp_path / "cpp", "cpp", RIGHT, "correct")
    overrides = [
        "tasks=transpile",
        f"tasks.given={cuda}",
        "teacher=transpile",
        f"teacher.answers={cpp}",
    ]
    cfg = compose_config("curate", [*overrides, "prompt=transpile"])
    with pytest.raises(UserError, match=r"no train task has a kernel with a verdict of correct"):
        sources.load(cfg.tasks)
    cfg.tasks.accept = ["correct", "not_run"]
    split = sources.load(cfg.tasks)
    assert [task.id for task in split.train] == ["t1/from-cuda", "t2/from-cuda"]
    assert [task.id for task in split.heldout] == ["t0/from-cuda"]
    assert split.train[0].given == Given(dialect="cuda", source=dialects.get("cuda").example, status="not_run")
    ((task, proposal), *_) = make_teacher(cfg.teacher, "cpp").proposals(split.train, "cpp")
    (message,) = build_prompt(task, "cpp", cfg.prompt.style)
    assert message["content"].startswith("Translate this CUDA kernel into C++ with OpenMP")
    assert dialects.get("cuda").example in message["content"] and REFERENCE not in message["content"]
    assert (proposal.source, proposal.reasoning) == (RIGHT, "Why.")
    with pytest.raises(UserError, match=r"task t0 has no kernel to translate; use tasks=transpile"):
        build_prompt(TASKS[0], "cpp", "transpile")
    with pytest.raises(UserError, match=r"teacher.answers holds kernels in cpp; dialect=triton"):
        make_teacher(cfg.teacher, "triton").propose(task, "triton")
