"""Repair data: second turns that are made by breaking right kernels."""

import pytest

from conftest import KERNELS, REFERENCE
from executor_cases import FAST
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config
from kernelrl.data import repairs
from kernelrl.data.mutation import UNBUILT, changes
from kernelrl.data.tables import (
    DRAWN_COLUMNS,
    PROPOSAL_COLUMNS,
    PROPOSALS,
    TASKS,
    verdict_columns,
    write_table,
)
from kernelrl.data.teachers import Proposal
from kernelrl.errors import UserError
from kernelrl.records import Ledger
from kernelrl.task import Task
from kernelrl.verdict import Verdict

TASK = Task(id="relu2", source=REFERENCE)
FAULTS = "does not compile", "its output is wrong", "fails while it runs", "was killed"


@pytest.fixture
def verified(tmp_path):
    """A folder with one right kernel."""
    verdict = Verdict(task_id="relu2", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu")
    row = {
        "split": "train",
        "task_id": "relu2",
        "dialect": "cpp",
        "teacher": "template",
        "completion": Proposal("Twice the positive part.", KERNELS["right"]).completion(),
        "reasoning": "Twice the positive part.",
        "kernel": KERNELS["right"],
        "verdict": verdict_columns(verdict),
        "record": "curate/relu2/0",
    }
    write_table(tmp_path / PROPOSALS, [row], PROPOSAL_COLUMNS)
    write_table(tmp_path / TASKS, [{"split": "train", "task": TASK.model_dump_json()}], DRAWN_COLUMNS)
    return tmp_path


def test_a_change_is_one_line_and_every_change_is_another_kernel():
    found = [*changes(KERNELS["right"], "cpp"), *changes(KERNELS["right"], "cpp", UNBUILT)]
    assert len({each.source for each in found}) == len(found) > 5
    for each in found:
        assert each.before in KERNELS["right"] and each.after in each.source and each.before != each.after
        lines = zip(KERNELS["right"].splitlines(), each.source.splitlines(), strict=True)
        assert sum(old != new for old, new in lines) == 1


@pytest.mark.slow
def test_a_broken_kernel_is_judged_and_the_right_one_is_the_answer_to_its_verdict(verified, executor_cache):
    cfg = compose_config("curate", ["curate.repairs=0.5"])
    settings = {**FAST, "cache_dir": str(executor_cache)}
    (turn,) = repairs.make(cfg, verified, settings)["curate/relu2/0"]
    question, first, heard = turn["prompt"]
    assert [question["role"], first["role"], heard["role"]] == ["user", "assistant", "user"]
    broken = Completion.parse(first["content"]).source
    assert broken not in (None, KERNELS["right"]) and "Twice the positive part." not in first["content"]
    assert any(said in heard["content"] for said in FAULTS)
    answer = Completion.parse(turn["completion"])
    assert answer.source == KERNELS["right"] and "is wrong: it must be" in answer.reasoning
    judged = list(Ledger(verified / "repairs" / "records"))
    assert any(record.completion.count(broken) and not record.verdict.correct for record in judged)
    assert repairs.make(cfg, verified, settings)["curate/relu2/0"] == [turn]
    assert len(list(Ledger(verified / "repairs" / "records"))) == len(judged), "nothing is judged twice"


def test_no_repairs_are_made_unless_they_are_wanted(verified):
    assert repairs.make(compose_config("curate"), verified, {}) == {}
    with pytest.raises(UserError, match=r"curate.repairs=1: give the share of second turns .* 0 to below 1"):
        repairs.make(compose_config("curate", ["curate.repairs=1"]), verified, {})
