"""Verdicts: a status says which fields may be set, and the JSON is a stable public format."""

import pytest
from pydantic import ValidationError

from kernelrl.executor.engines.service import MAX_VERDICT_CHARS, forged
from kernelrl.verdict import SCHEMA_VERSION, STAGES, Build, Speedup, TrialError, Verdict, Violation

CALL = Violation(rule="library_call", evidence="torch.relu", line=7)


def make(status, stage, **fields):
    return Verdict(task_id="t", candidate="c", status=status, stage=stage, dialect="cpp", device="cpu", **fields)


@pytest.mark.parametrize(
    ("status", "stage", "fields"),
    [
        ("correct", "ran", {}),
        ("incorrect", "correct", {}),
        ("correct", "correct", {"violations": (CALL,)}),
        ("illegal", "parsed", {}),
        ("infrastructure", "none", {}),
        ("incorrect", "ran", {"fault": "executor"}),
        ("fine", "ran", {}),
        ("correct", "done", {}),
        ("correct", "correct", {"colour": "red"}),
    ],
)
def test_what_cannot_be_is_refused(status, stage, fields):
    with pytest.raises(ValidationError):
        make(status, stage, **fields)


@pytest.mark.parametrize(
    ("verdict", "legal", "correct"),
    [
        (make("compile_error", "none"), False, False),
        (make("illegal", "parsed", violations=(CALL,)), False, False),
        (make("illegal", "ran", violations=(CALL,)), False, False),
        (make("compile_error", "legal"), True, False),
        (make("incorrect", "ran"), True, False),
        (make("correct", "correct"), True, True),
    ],
)
def test_legal_and_correct(verdict, legal, correct):
    assert (verdict.legal, verdict.correct) == (legal, correct)


def test_stages_are_passed_in_order():
    verdict = make("runtime_error", "compiled")
    assert [verdict.reached(stage) for stage in STAGES] == [True, True, True, True, False, False]


def test_json_round_trips_and_has_the_public_fields():
    verdict = make(
        "incorrect",
        "ran",
        errors=(TrialError(trial=2, kind="mismatch", message="off by one", max_abs=1.0),),
        speedup=Speedup(median=2.0, low=1.9, high=2.1, pairs=7),
        build=Build(ok=True, seconds=0.4, cached=False, units=1),
    )
    public = verdict.to_json()
    assert Verdict.model_validate(public) == verdict
    assert public["schema_version"] == SCHEMA_VERSION
    assert public["speedup"] == {"median": 2.0, "low": 1.9, "high": 2.1, "pairs": 7}
    promised = "status violations errors reference_ms candidate_ms speedup device dialect build feedback"
    assert set(promised.split()) <= set(public)


def test_a_verdict_that_was_made_too_long_says_so_and_nothing_else():
    errors = tuple(TrialError(trial=0, kind="shape", inputs="task", message="x" * 10_000) for _ in range(200))
    long = Verdict(
        task_id="t", candidate="c", status="incorrect", stage="ran", dialect="cpp", device="cpu", errors=errors
    )
    short = forged(long, "its verdict would be long")
    assert short.status == "illegal" and short.violations[0].rule == "forged_message" and not short.errors
    assert (short.task_id, short.candidate, short.stage) == ("t", "c", "ran")
    assert len(short.model_dump_json()) < MAX_VERDICT_CHARS < len(long.model_dump_json())
