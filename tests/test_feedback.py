"""What a policy is told of a verdict: enough to go on, and never the reference's values."""

import re

import pytest

from conftest import KERNELS, REFERENCE, RIGHT
from executor_cases import FAST, judge
from kernelrl.strategies.feedback import AMOUNTS, Feedback
from kernelrl.verdict import GpuBuild, Speedup, TrialError, Verdict, Violation


def verdict(status="correct", **fields):
    stage = "correct" if status == "correct" else "compiled"
    return Verdict(task_id="t", candidate="c", status=status, stage=stage, dialect="cpp", device="cpu", **fields)


@pytest.fixture(scope="module")
def judged(executor_cache, kept_executor):
    with kept_executor({**FAST, "timing": False, "cache_dir": str(executor_cache)}) as executor:
        return {name: judge(executor, source) for name, source in KERNELS.items()}


def test_of_a_wrong_output_it_tells_the_first_element_and_magnitudes_alone(judged):
    text = Feedback()(judged["wrong"], KERNELS["wrong"])
    assert text.startswith("The kernel runs, and its output is wrong.\nIt fails in ")
    assert re.search(r"the first at \[\d+, \d+\]: expected a value of about \S+, got about \S+\.", text)
    numbers = re.findall(r"about ([\d.e+-]*\d)", text)
    assert len(numbers) == 2 and all(float(f"{float(each):.1g}") == float(each) for each in numbers)
    assert "These kinds of hidden inputs are wrong too: " in text


def test_of_a_build_it_tells_the_first_error_with_its_line(judged):
    text = Feedback()(judged["broken"], KERNELS["broken"])
    assert "The first error is on line 6 of the source that is compiled: " in text
    assert text.splitlines()[2].strip() == "#pragma omp parallel for", "the line itself"
    assert text.count("error") == 1


def test_of_a_right_kernel_it_tells_which_loops_were_vectorised(executor_cache, kept_executor):
    """Each element of a chain waits for the one before, and no compiler can change that."""
    fast = "a[i] + __builtin_fabsf(a[i]);"  # without a branch, so that compilers for any processor make vectors of it
    source = RIGHT.replace("a[i] > 0.0f ? 2.0f * a[i] : 0.0f;", f"{fast}\n  LOOP")
    slow = "volatile float chain = 0; for (int64_t i = 0; i < n; ++i) chain = chain * 0.5f + a[i];"
    with kept_executor({**FAST, "timing": False, "cache_dir": str(executor_cache)}) as executor:
        text = Feedback()(judge(executor, source.replace("LOOP", slow)), source)
    assert re.search(r"The compiler vectorised the loops at line 7 \(\d+ bytes\) of the C\+\+\.", text)
    assert re.search(r"It did not vectorise the loop at line 8: \S+", text)


def test_of_nvccs_errors_it_tells_the_first_one_too():
    build = GpuBuild(kernel="k", arch="sm_90", ok=False, log='kernel.cu(12): error: identifier "y" is undefined')
    text = Feedback()(verdict("compile_error", gpu_builds=(build,)), RIGHT)
    assert 'The first error is on line 12 of the source that is compiled: identifier "y" is undefined' in text


def test_of_a_cheat_it_names_the_rule(judged):
    text = Feedback()(judged["cheat"], KERNELS["cheat"])
    assert "It breaks the rule `library_call` (line 7): torch.relu" in text


def test_of_inputs_that_only_hidden_trials_have_it_says_so():
    errors = (TrialError(trial=4, kind="mismatch", inputs="ties", message="values; at [0] expected 12.345, got 6.7"),)
    text = Feedback()(verdict("incorrect", errors=errors, trials=9), RIGHT)
    assert "The task's own inputs are right; these kinds of hidden inputs are not: ties." in text
    assert "12.3" not in text and "expected a value of about 1e+01" in text


def test_of_a_right_kernel_it_tells_times_against_reference_and_limit():
    timed = verdict(
        candidate_ms=2.0,
        reference_ms=4.0,
        bound_ms=0.5,
        bound_by="reading",
        speedup=Speedup(median=2.0, low=1.8, high=2.2, pairs=9),
    )
    text = Feedback()(timed, RIGHT)
    assert "It takes 2 ms, the reference 4 ms: a speedup of 2.00 (between 1.80 and 2.20)." in text
    limit = "No program can take less than 0.5 ms on this machine, which reading its inputs takes"
    assert f"{limit}: it is 4 times as slow as that." in text


def test_each_amount_tells_more_than_the_one_before(judged):
    timed = verdict(
        candidate_ms=2.0, reference_ms=4.0, speedup=Speedup(median=2.0, low=1.8, high=2.2, pairs=9), operators={"a": 1}
    )
    texts = [Feedback(amount=amount)(timed, RIGHT) for amount in AMOUNTS]
    assert texts[0] == texts[1] == "The kernel is correct."
    assert texts[2].startswith(texts[1]) and texts[3].startswith(texts[2]) and len(set(texts)) == 3
    assert "line" not in Feedback(amount="status")(judged["broken"], KERNELS["broken"])


def test_it_has_a_limit_and_knows_an_answer_without_a_kernel():
    illegal = verdict("illegal", violations=(Violation(rule="no_kernel", evidence="e" * 500),))
    assert len(Feedback(max_chars=100)(illegal, REFERENCE)) <= 102
    assert Feedback()(illegal, None).startswith("The answer holds no complete kernel.")
