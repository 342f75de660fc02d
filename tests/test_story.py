"""The trajectory that a report tells: its turns in order, and which of all it is."""

import json

from kernelrl.eval.report import render
from kernelrl.eval.story import choose_story
from kernelrl.records import Ledger
from kernelrl.task import Task
from test_report import REFERENCE, Page, make_record, make_run


def attempt(sample, turn, outcome, speedup=None, parent=None):
    task = Task(id="softmax", source=REFERENCE)
    record = make_record("grpo", task, 0, outcome, speedup)
    id = f"eval/grpo/softmax/{sample}/{turn}"
    return record.model_copy(update={"id": id, "turn": turn, "parent": parent, "strategy": "refine"})


FIRST = [attempt(0, 0, "incorrect"), attempt(0, 1, "correct", 1.2, parent="eval/grpo/softmax/0/0")]
SECOND = [
    attempt(1, 0, "unbuilt"),
    attempt(1, 1, "correct", 3.0, parent="eval/grpo/softmax/1/0"),
    attempt(1, 2, "incorrect", parent="eval/grpo/softmax/1/1"),
]


def test_the_trajectory_that_gained_most_is_told_up_to_its_best_turn():
    assert choose_story([*FIRST, *SECOND]) == SECOND[:2]
    assert choose_story([*SECOND[::-1], *FIRST]) == SECOND[:2], "in whatever order they were judged"


def test_one_answer_alone_is_no_story():
    assert (
        choose_story([attempt(0, 0, "correct", 5.0), make_record("grpo", Task(id="t", source=""), 0, "correct")]) == []
    )


def test_the_report_tells_it_turn_by_turn(tmp_path):
    make_run(tmp_path, num_tasks=3, samples=2)
    results = json.loads((tmp_path / "results.json").read_text())
    records = {name: list(Ledger(tmp_path / "eval" / name / "records")) for name in ("base", "sft")}
    page = Page(render(results, records | {"grpo": [*FIRST, *SECOND]}))
    assert "softmax, by grpo with the strategy refine" in page.text
    assert page.text.index("Turn 1 compile_error") < page.text.index("Turn 2 correct")
    assert "One task over turns" not in Page(render(results, records)).text
