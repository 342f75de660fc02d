"""Judging begins while the policy generates: when, of what, and with the same verdicts."""

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from conftest import KERNELS, REFERENCE
from kernelrl.candidate import Candidate
from kernelrl.executor import ExecutorSettings
from kernelrl.executor.api import Request
from kernelrl.executor.engines.local import LocalExecutor
from kernelrl.grpo.ahead import JudgedAhead, handing_over
from kernelrl.task import Task
from kernelrl.verdict import Verdict

TASK = Task(id="relu2", source=REFERENCE)


def request(name):
    return Request(task=TASK, candidate=Candidate(source=KERNELS[name], dialect="cpp"), dialect="cpp")


class Noting:
    """An executor that notes what it is asked."""

    def __init__(self):
        self.asked = []

    def evaluate(self, requests):
        self.asked.append([it.candidate and it.candidate.digest for it in requests])
        return [
            Verdict(
                task_id="relu2",
                candidate=it.candidate and it.candidate.digest,
                status="correct",
                stage="correct",
                dialect="cpp",
                device="cpu",
            )
            for it in requests
        ]


def test_what_was_begun_is_not_asked_for_again():
    executor = Noting()
    ahead = JudgedAhead(executor)
    right, wrong, broken, nothing = request("right"), request("wrong"), request("broken"), request("right")
    nothing = nothing.model_copy(update={"candidate": None})
    for it in (right, wrong, right, nothing):
        ahead.begin(it)
    batch = [broken, right, wrong, right, nothing]
    verdicts = ahead.evaluate(batch)
    assert [it.candidate for it in verdicts] == [it.candidate and it.candidate.digest for it in batch]
    assert sorted(executor.asked, key=len)[-1] == [broken.candidate.digest, None]
    assert sorted(map(len, executor.asked)) == [1, 1, 2]
    executor.asked.clear()
    ahead.evaluate([right])
    assert executor.asked == [[right.candidate.digest]], "of the batch before nothing is left"


def test_where_timing_needs_the_cores_builds_alone_are_made_ahead(monkeypatch):
    built, judged = [], []
    monkeypatch.setattr(LocalExecutor, "build_ahead", lambda self, request, arch: built.append(request))
    monkeypatch.setattr(LocalExecutor, "evaluate", lambda self, requests: judged.append(requests) or requests)
    for timing in (True, False):
        ahead = JudgedAhead(LocalExecutor(ExecutorSettings(timing=timing)))
        ahead.begin(request("right"))
        ahead.evaluate([request("right")])
    assert [each.candidate for each in built] == [request("right").candidate] and sorted(map(len, judged)) == [0, 1, 1]
    assert built[0].group == judged[0][0].group is not None, "it may meet the inputs of those that are judged with it"


def test_every_row_is_told_of_once_as_soon_as_it_has_ended():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=8,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        eos_token_id=7,
        pad_token_id=0,
    )
    model = Qwen3ForCausalLM(config).eval()
    told, lengths = {}, []
    model.register_forward_pre_hook(lambda *_: lengths.append(len(told)))

    def ended(row, ids):
        assert row not in told
        told[row] = ids

    with handing_over(model, ended, [7]):
        prompts = torch.randint(1, 7, (6, 4))
        drawn = model.generate(input_ids=prompts, do_sample=True, max_new_tokens=60, attention_mask=torch.ones(6, 4))
    assert "generate" not in vars(model)
    completions = [row[4:].tolist() for row in drawn]
    assert told == {row: ids[: ids.index(7) + 1] for row, ids in enumerate(completions) if 7 in ids}
    assert len(told) >= 5 and any(0 < count < len(told) for count in lengths), "while others went on"
