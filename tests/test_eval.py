"""The eval stage: two tiny policies on two tasks, from sampling to the table."""

import json
from collections import Counter
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
import torch
import wandb
from omegaconf import OmegaConf
from transformers import Qwen3Config, Qwen3ForCausalLM

from chat_server import answer
from conftest import copied_cache
from kernelrl.candidate import Completion
from kernelrl.commands.reward import replay
from kernelrl.configs import compose_config
from kernelrl.data.tables import write_table
from kernelrl.errors import UserError
from kernelrl.eval import run, sampling, stage
from kernelrl.policies.models import load_policy, save_policy, train_tokenizer
from kernelrl.policies.prompts import render, to_text
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.task import Task

TASK_COLUMNS = pa.schema(
    [
        ("task_id", pa.string()),
        ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("task", pa.string()),
    ]
)

REFERENCE = """\
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [torch.randn(256, 256)]

def get_init_inputs():
    return []
"""
TASKS = [
    Task(id="relu", source=REFERENCE.format(expression="torch.relu(x)"), category="activation"),
    Task(id="double", source=REFERENCE.format(expression="x * 2.0"), category="elementwise"),
]
PROMPTS = {task.id: [{"role": "user", "content": task.source}] for task in TASKS}
KERNEL = '''\
<think>
one pass over memory
</think>
```python
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {{
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = {expression};
}}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
```
'''
RELU = KERNEL.format(expression="a[i] > 0 ? a[i] : 0.0f")
DOUBLE = KERNEL.format(expression="2.0f * a[i]")
CHEAT = """\
<think>
let torch do it
</think>
```python
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
```
"""


def train_policy(folder, answers):
    """A policy of 60,000 weights that has learnt by heart to answer each task with one of its answers."""
    texts = [to_text(PROMPTS[id]) for id, _ in answers] * 2 + [answer for _, answer in answers] * 2
    torch.manual_seed(0)
    tokenizer = train_tokenizer(texts, bpe_tokens=300, line_tokens=200)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    turns = [[*PROMPTS[id], {"role": "assistant", "content": answer}] for id, answer in answers]
    tokenizer.padding_side = "right"
    batch = tokenizer(
        tokenizer.apply_chat_template(turns, tokenize=False),
        add_special_tokens=False,
        padding=True,
        return_tensors="pt",
    )
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(400):
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    save_policy(model, tokenizer, folder)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small are slower on several."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module", autouse=True)
def _kept_executor(kept_executor):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "make_executor", kept_executor)
        yield


@pytest.fixture(scope="module")
def inputs(one_thread, tmp_path_factory, executor_cache):
    folder = tmp_path_factory.mktemp("inputs")
    copied_cache(executor_cache, folder / "cache")
    rows = [{"task_id": task.id, "prompt": PROMPTS[task.id], "task": task.model_dump_json()} for task in TASKS]
    write_table(folder / "tasks_heldout.parquet", rows, TASK_COLUMNS)
    train_policy(folder / "muddled", [("relu", RELU), ("relu", DOUBLE), ("double", CHEAT)])
    train_policy(folder / "learnt", [("relu", RELU), ("double", DOUBLE)])
    return folder


def compose(inputs, output_dir):
    overrides = {
        "output_dir": output_dir,
        "tracker": "none",
        "eval.tasks": inputs / "tasks_heldout.parquet",
        "+eval.policies.muddled": inputs / "muddled",
        "+eval.policies.learnt": inputs / "learnt",
        "eval.samples": 4,
        "eval.k": [1, 4],
        "eval.batch_size": 3,
        "eval.max_new_tokens": 64,
        "eval.bootstrap": 200,
        "executor.cache_dir": inputs / "cache",
        "executor.draws": "tests",
        "executor.trials": 2,
        "executor.min_pairs": 3,
        "executor.max_pairs": 5,
    }
    left_out = [f"~eval.policies.{name}" for name in ("base", "sft", "grpo")]
    return compose_config("eval", [*left_out, *(f"{key}={value}" for key, value in overrides.items())])


@pytest.fixture
def cfg(inputs, tmp_path):
    return compose(inputs, tmp_path)


@pytest.mark.slow
def test_another_evaluation_does_not_take_the_place_of_finished_results(inputs, tmp_path):
    cfg = compose(inputs, tmp_path)
    (tmp_path / "eval").mkdir()
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"eval": {"folder": f"{tmp_path}/eval"}}))
    cfg.eval.folder = f"{tmp_path}/turns"
    with pytest.raises(UserError, match=f"{results} has the results of {tmp_path}/eval, which would be lost; give"):
        run(cfg)
    assert not (tmp_path / "turns").exists()


@pytest.fixture(scope="module")
def finished(inputs, tmp_path_factory):
    """The config of a run that has finished, tracked."""
    cfg = compose(inputs, tmp_path_factory.mktemp("finished"))
    cfg.tracker = {"kind": "wandb", "project": "kernelrl", "mode": "offline"}
    assert run(cfg) == Path(cfg.output_dir) / "results.json"
    yield cfg
    wandb.finish()


@pytest.mark.slow
def test_every_task_of_a_source_can_be_evaluated_on(inputs, tmp_path):
    cfg = compose(inputs, tmp_path)
    table = compose_config("eval", ["tasks=table", f"tasks.path={inputs / 'tasks_heldout.parquet'}"]).tasks
    cfg = OmegaConf.merge(cfg, {"eval": {"tasks": None, "samples": 1, "k": [1]}})
    OmegaConf.update(cfg, "tasks", table, merge=False)
    run(cfg)
    records = ledger_of(cfg, "learnt")
    assert (Path(cfg.eval.folder) / "health" / "rank0.json").exists()
    assert sorted(record.task_id for record in records) == ["double", "relu"]
    assert all("Rewrite this program as one" in record.prompt for record in records)


@contextmanager
def interrupted_after(batches):
    """Ctrl-C while a batch is being judged."""
    left = count(batches, -1)

    def judge_or_stop(*arguments):
        if next(left) == 0:
            raise KeyboardInterrupt
        return judge(*arguments)

    judge = sampling._judge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "_judge", judge_or_stop)
        yield


def ledger_of(cfg, policy):
    return list(Ledger(Path(cfg.eval.folder) / policy / "records"))


def read_results(cfg):
    return json.loads(Path(cfg.output_dir, "results.json").read_text())


def test_policies_are_sampled_judged_and_compared(finished):
    results = read_results(finished)
    learnt, muddled = (results["policies"][name] for name in ("learnt", "muddled"))
    assert learnt["num_samples"] == muddled["num_samples"] == 8
    assert learnt["figures"]["correct"] == {"value": 1, "low": pytest.approx(0.025**0.5), "high": 1}, "two tasks"
    assert learnt["figures"]["reward"]["value"] >= 1
    assert learnt["figures"]["speedup"]["value"] > 0
    assert muddled["categories"]["elementwise"]["figures"]["legal"]["value"] == 0
    assert muddled["figures"]["legal"]["value"] == 0.5
    assert learnt["seconds_per_solved"] == learnt["seconds"] / 2, "both tasks are solved"
    assert learnt["reasoning"]["correlation"]["value"] is None, "of two tasks"
    (comparison,) = results["comparisons"]
    assert (comparison["before"], comparison["after"]) == ("muddled", "learnt")
    assert comparison["figures"]["correct"]["value"] == pytest.approx(1 - muddled["figures"]["correct"]["value"])
    assert all(results[key] for key in ("version", "machine", "packages", "eval", "executor")) and results["seed"] == 0


def test_records_hold_all_that_was_seen(finished):
    records = ledger_of(finished, "learnt")
    assert {record.id for record in records} == {f"eval/learnt/{task.id}/{n}" for task in TASKS for n in range(4)}
    record = next(record for record in records if record.task_id == "relu")
    assert record.completion == RELU and record.prompt == to_text(PROMPTS["relu"])
    assert record.rewards["correct"] == 1 and record.reward >= 1
    assert record.finish == "stop" and record.prompt_tokens > 0 and 0 < record.completion_tokens <= 64


def test_figures_are_tracked(finished):
    assert wandb.run.summary["eval/learnt/correct"] == 1


def test_a_finished_policy_is_only_read_and_shown(finished, capsys):
    before = read_results(finished)
    with interrupted_after(batches=0):
        run(finished)
    after = read_results(finished)
    assert before.pop("time") <= after.pop("time") and before == after
    table = capsys.readouterr().out
    assert "muddled → learnt" in table and "100.0 [15.8, 100.0]" in table
    finished.eval.k = [2]
    with interrupted_after(batches=0):
        run(finished)
    assert read_results(finished)["policies"]["learnt"]["figures"]["pass@2"]["value"] == 1
    hotter = finished.copy()
    hotter.eval.temperature = 1.5
    with pytest.raises(UserError, match="eval.temperature was 0.8, now 1.5"):
        run(hotter)


def test_an_interrupted_run_goes_on_with_what_is_missing(finished, cfg):
    with pytest.raises(KeyboardInterrupt), interrupted_after(batches=1):
        run(cfg)
    shard = Path(cfg.eval.folder) / "muddled" / "records" / "rank0.jsonl"
    shard.write_bytes(shard.read_bytes()[:-40])
    run(cfg)
    whole, resumed = ledger_of(finished, "muddled"), ledger_of(cfg, "muddled")
    assert len(whole) == len(resumed) == 8
    assert {record.id: record.completion for record in whole} == {record.id: record.completion for record in resumed}
    metrics = json.loads((Path(cfg.eval.folder) / "muddled" / "metrics.json").read_text())
    assert metrics["num_resumed"] == 3, "of four samples of the first task"
    assert (
        json.loads((Path(cfg.output_dir) / "results.json").read_text())["policies"]["muddled"]["seconds_per_solved"]
        is None
    )


@pytest.mark.slow
def test_rewards_are_those_of_whole_groups_also_after_an_interruption(inputs, tmp_path):
    """Groups of four, batches of three; one record is lost on the way; computed again, every reward is the same."""
    cfg = compose(inputs, tmp_path)
    known = pa.schema([("task_id", pa.string()), ("kernel", pa.string())])
    kernels = [{"task_id": "relu", "kernel": Completion.parse(RELU).source}]
    write_table(tmp_path / "known.parquet", kernels, known)
    cfg.eval.references = str(tmp_path / "known.parquet")
    cfg.eval.policies = {"muddled": str(inputs / "muddled")}
    cfg.executor.timing = False
    terms = {"correct": {}, "brevity": {"weight": 0.3}, "similarity": {"weight": 0.1}, "standardised_speedup": {}}
    cfg.reward = {"name": "of_groups", "terms": terms}
    with pytest.raises(KeyboardInterrupt), interrupted_after(batches=1):
        run(cfg)
    shard = Path(cfg.eval.folder) / "muddled" / "records" / "rank0.jsonl"
    shard.write_bytes(shard.read_bytes()[:-40])
    run(cfg)
    records = ledger_of(cfg, "muddled")
    assert len(records) == 8 and max(record.rewards["similarity"] for record in records) == 1
    samples = [(Completion.parse(record.completion), record.verdict) for record in records]
    references = {"relu": [Completion.parse(RELU).source]}
    totals = replay(records, samples, make_reward(cfg.reward), references).totals
    assert totals.tolist() == [record.reward for record in records]


def test_a_server_is_evaluated_by_the_same_command_and_keeps_what_it_answered(inputs, tmp_path, serve):
    """One of eight questions fails; the second run asks for that one alone, and judges its group then."""
    server = serve(*[answer(RELU)] * 5, (500, "{}"), answer(RELU))
    cfg = compose(inputs, tmp_path)
    cfg.executor.timing = False
    cfg.eval.policies = {"api": {"backend": "endpoint", "base_url": server.url, "model": "m", "retries": 0}}
    with pytest.raises(UserError, match=r"eval.policies.api: questions without an answer \(1 x HTTP 500\)"):
        run(cfg)
    assert len(ledger_of(cfg, "api")) == 4, "the group of the question that failed waits for it"
    cfg.eval.policies.api.base_url = server.url + "/"  # where it is served decides nothing
    run(cfg)
    assert len(server.requests) == 9 and len(ledger_of(cfg, "api")) == 8
    body = server.requests[0][2]
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("m", 0.8, 1.0, 64)
    assert {(record.finish, record.prompt_tokens, record.completion_tokens) for record in ledger_of(cfg, "api")} == {
        ("stop", 1000, 500)
    }
    assert not (Path(cfg.eval.folder) / "api" / "answers").exists(), "the records have them"


def test_answers_that_were_kept_are_no_time_of_sampling(inputs, tmp_path, serve):
    """One of four questions of each group fails, so that nothing is judged; the second run asks for these two alone."""
    failure = (500, "{}")
    server = serve(*[answer(RELU)] * 3, failure, *[answer(RELU)] * 3, failure, answer(RELU))
    cfg = compose(inputs, tmp_path)
    cfg.executor.timing = False
    api = {"backend": "endpoint", "base_url": server.url, "model": "m", "retries": 0, "concurrency": 1}
    cfg.eval.policies = {"api": api}
    with pytest.raises(UserError, match=r"questions without an answer \(2 x HTTP 500\)"):
        run(cfg)
    assert not ledger_of(cfg, "api")
    run(cfg)
    policy = read_results(cfg)["policies"]["api"]
    assert (policy["num_resumed"], policy["seconds_per_solved"]) == (6, None)


def test_a_question_that_a_server_refuses_for_good_is_a_failure_with_its_reason(inputs, tmp_path, serve, caplog):
    refusal = (400, json.dumps({"error": {"message": "maximum context length is 10 tokens"}}))
    cfg = compose(inputs, tmp_path)
    cfg.executor.timing = False
    api = {"backend": "endpoint", "model": "m", "retries": 0, "concurrency": 1}
    cfg.eval.policies = {"api": api | {"base_url": serve(answer(RELU), refusal, answer(RELU)).url}}
    run(cfg)
    statuses = Counter(record.verdict.status for record in ledger_of(cfg, "api"))
    assert statuses.total() == 8 and statuses["illegal"] == 1
    (failed,) = (record.verdict for record in ledger_of(cfg, "api") if record.verdict.status == "illegal")
    assert "maximum context length is 10 tokens" in failed.feedback
    assert "1 questions were refused" in caplog.text and "maximum context length is 10 tokens" in caplog.text
    other = compose(inputs, tmp_path / "other")
    other.eval.policies = {"api": api | {"base_url": serve(refusal).url}}
    with pytest.raises(UserError, match="every question is refused: .*maximum context length is 10 tokens"):
        run(other)
    other.eval.policies.api.base_url = serve(answer(RELU)).url
    other.eval.temperature = 0.5  # nothing was sampled: the same folder takes other settings
    run(other)
    assert len(ledger_of(other, "api")) == 8


def test_a_prompt_without_room_for_an_answer_is_a_failed_sample_with_its_reason(inputs, tmp_path, caplog):
    """The prompt of one task leaves room for a whole answer in the model's context, that of the other one does not."""
    model, tokenizer = load_policy(str(inputs / "learnt"))
    cfg = compose(inputs, tmp_path)
    cfg.executor.timing = False
    cfg.eval.policies = {"narrow": str(tmp_path / "narrow")}
    rows = [{"task_id": task.id, "prompt": PROMPTS[task.id], "task": task.model_dump_json()} for task in TASKS]
    long = [{"role": "user", "content": "Rewrite this. " * 40}]
    write_table(tmp_path / "tasks.parquet", [rows[0] | {"prompt": long}, *rows[1:]], TASK_COLUMNS)
    cfg.eval.tasks = str(tmp_path / "tasks.parquet")
    number = len(tokenizer(render(tokenizer, long, {}), add_special_tokens=False)["input_ids"])
    model.config.max_position_embeddings = number + cfg.eval.max_new_tokens - 1
    save_policy(model, tokenizer, tmp_path / "narrow")
    run(cfg)
    records = ledger_of(cfg, "narrow")
    assert {r.verdict.status for r in records if r.task_id == TASKS[0].id} == {"illegal"}
    assert {r.verdict.status for r in records if r.task_id == TASKS[1].id} == {"correct"}
    reason = f"the conversation has {number} tokens, and with max_new_tokens=64 for the answer that is more than"
    assert f"4 questions were refused and count as failures: {reason}" in caplog.text
    cfg.output_dir, cfg.eval.limit = str(tmp_path / "first"), 1
    with pytest.raises(UserError, match=f"eval.policies.narrow: no task leaves room for an answer: {reason}"):
        run(cfg)
    assert not ledger_of(cfg, "narrow")


def test_a_verifier_is_asked_in_an_evaluation_too(inputs, tmp_path, serve):
    server = serve(answer("SCORE: 0.25"))
    cfg = compose(inputs, tmp_path)
    cfg.eval.policies = {"learnt": str(inputs / "learnt")}
    cfg.executor.timing = False
    words = ["verifier=endpoint", "verifier.model=m", f"verifier.base_url={server.url}"]
    words.append(f"verifier.cache_dir={tmp_path}/opinions")
    OmegaConf.update(cfg, "verifier", compose_config("eval", words).verifier, force_add=True)
    cfg.reward = {"name": "judged", "terms": {"correct": {"gates": ["judge"]}}}
    run(cfg)
    assert {record.opinion for record in ledger_of(cfg, "learnt")} == {0.25}
    assert {record.reward for record in ledger_of(cfg, "learnt")} == {0.25}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("policies.grpo", "outputs/nowhere", "eval.policies.grpo: policy outputs/nowhere: no model there"),
        ("policies.grpo", {"backend": "cloud"}, "eval.policies.grpo.backend='cloud' is not known"),
        ("policies.grpo", {"backend": "vllm", "model": "x", "engin": {}}, "eval.policies.grpo.engin="),
        ("policies", {}, "eval.policies="),
        ("policies", {"../x": "outputs"}, "eval.policies"),
        ("samples", 0, "eval.samples=0"),
        ("k", [1, 8], "pass@8 needs as many samples per task, but eval.samples=4"),
        ("k", [0], "eval.k.0=0"),
        ("temperature", "hot", "eval.temperature='hot'"),
        ("temprature", 1.0, "eval.temprature=1.0"),
        ("tasks", "nowhere.parquet", "nowhere.parquet: no such file"),
    ],
)
def test_bad_settings_are_one_clear_line_before_anything_is_sampled(cfg, key, value, message):
    OmegaConf.update(cfg, f"eval.{key}", value, merge=False, force_add=True)
    with pytest.raises(UserError) as error:
        run(cfg)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not Path(cfg.output_dir, "eval").exists()
