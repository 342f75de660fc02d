"""`kernelrl check`: exit codes, the JSON, batches, and one line for every file that cannot be judged."""

import json

import pytest

from conftest import KERNELS, REFERENCE
from kernelrl import dialects
from kernelrl.commands import check
from kernelrl.errors import KernelRLError, UserError
from kernelrl.verdict import GpuCounters, Speedup, Verdict

QUICK = ["executor.timing=false", "executor.trials=2"]


@pytest.fixture(autouse=True)
def _one_executor(monkeypatch, executor_cache, kept_executor):
    monkeypatch.setattr(check, "make_executor", kept_executor)
    compose = check.compose_config
    monkeypatch.setattr(
        check,
        "compose_config",
        lambda command, words: compose(command, [*words, f"executor.cache_dir={executor_cache}"]),
    )


@pytest.mark.parametrize(
    ("kernel", "code", "status"),
    [("right", 0, "correct"), ("wrong", 1, "incorrect"), ("broken", 1, "compile_error"), ("cheat", 1, "illegal")],
)
def test_one_kernel(capsys, kernel_files, kernel, code, status):
    assert check.main([str(kernel_files["reference"]), str(kernel_files[kernel]), *QUICK, "--json"]) == code
    verdict = Verdict.model_validate_json(capsys.readouterr().out)
    assert verdict.status == status and verdict.dialect == "cpp"


def test_a_person_reads_status_times_and_feedback(capsys, kernel_files):
    assert check.main([str(kernel_files["reference"]), str(kernel_files["right"])]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("correct", "speedup", "reference", "pairs", "build"))
    assert check.main([str(kernel_files["reference"]), str(kernel_files["cheat"])]) == 1
    assert "torch.relu" in capsys.readouterr().out


def test_a_batch_streams_a_line_for_every_line(capsys, tmp_path):
    rows = [{"id": name, "reference": REFERENCE, "kernel": source} for name, source in KERNELS.items()]
    lines = [json.dumps(row) for row in rows]
    lines += ["", "{not json", "[1]", json.dumps({"id": 9, "kernel": ""}), json.dumps(rows[0] | {"kernel": "  "})]
    lines += [json.dumps(rows[0] | {"dialect": "cobol"}), json.dumps(rows[0] | {"reference": "def f(:"})]
    lines += [json.dumps(rows[0] | {"kernel": 3}), "[" * 100_000]
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(lines))
    assert check.main(["--batch", str(path), *QUICK]) == 1
    captured = capsys.readouterr()
    printed = [json.loads(line) for line in captured.out.splitlines()]
    bad = {row["line"]: row["error"] for row in printed if "error" in row}
    assert bad.keys() == {6, 7, 8, 9, 10, 11, 12, 13}
    assert bad[8] == "field reference is missing"
    verdicts = {row.pop("id"): Verdict.model_validate(row) for row in printed if "error" not in row}
    assert {name: verdict.status for name, verdict in verdicts.items()} == {
        "right": "correct",
        "wrong": "incorrect",
        "broken": "compile_error",
        "cheat": "illegal",
    }
    assert "12 lines:" in captured.err and "8 bad lines" in captured.err


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"id": 1, "reference": "x = 1\n", "kernel": "x = 1\n", "dialct": "cpp"},
            "dialct is not known: dialect is meant",
        ),
        ({"id": 1, "reference": "tasks/relu.py", "kernel": "x = 1\n"}, "reference is a path"),
        ({"id": 1, "reference": "x = 1\n"}, "kernel is missing"),
    ],
)
def test_a_line_that_cannot_be_meant_so_is_reported(capsys, tmp_path, row, said):
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps(row))
    assert check.main(["--batch", str(path), *QUICK]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert said in json.loads(line)["error"]


def test_a_batch_that_is_all_correct_exits_with_0(capsys, tmp_path):
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"id": 1, "reference": REFERENCE, "kernel": KERNELS["right"], "dialect": "cpp"}))
    assert check.main(["--batch", str(path), *QUICK]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\x7fELF\xff\xfe", "not a text file"),
        (b"a\0b", "null bytes"),
        (b"x" * 1_000_001, "at most 200000"),
    ],
)
def test_a_kernel_file_that_is_none(kernel_files, content, message):
    path = kernel_files["right"]
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        check.main([str(kernel_files["reference"]), str(path)])
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:", "syntax error on line 1"), ("x = 1", "does not define Model, get_inputs, get_init_inputs")],
)
def test_a_reference_that_is_none(kernel_files, text, message):
    kernel_files["reference"].write_text(text)
    with pytest.raises(KernelRLError, match=message):
        check.main([str(kernel_files["reference"]), str(kernel_files["right"])])


def test_a_reference_that_fails_when_it_runs_is_bad_usage(capsys, kernel_files):
    kernel_files["reference"].write_text(REFERENCE.replace("torch.relu(x)", "x.no_such_method()"))
    assert check.main([str(kernel_files["reference"]), str(kernel_files["right"]), "--json"]) == 2
    verdict = Verdict.model_validate_json(capsys.readouterr().out)
    assert verdict.fault == "task" and "no_such_method" in verdict.feedback


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "two files are needed, a reference and a kernel; 0 given"),
        (["a.py"], "1 given"),
        (["a.py", "b.py", "c.py"], "3 given"),
        (["--batch", "/nonexistent.jsonl"], "No such file"),
        (["--batch", "x.jsonl", "a.py"], "'a.py' is one too many"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["a.py", "b.py", "executor.trails=1"], "did you mean 'executor.trials'?"),
    ],
)
def test_bad_usage(arguments, message):
    with pytest.raises(UserError) as error:
        check.main(arguments)
    assert message in str(error.value)


def test_a_gpu_that_is_not_there(kernel_files):
    with pytest.raises(UserError, match="executor.device=cuda: torch sees no GPU"):
        check.main([str(kernel_files["reference"]), str(kernel_files["right"]), "executor.device=cuda"])


def test_no_compiler(kernel_files, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"no compiler for dialect cpp: g\+\+ is not on PATH; apt-get install g\+\+"):
        check.main([str(kernel_files["reference"]), str(kernel_files["right"])])


@pytest.mark.parametrize(
    ("source", "dialect"),
    [
        ("import triton", "triton"),
        ("import triton.language as tl", "triton"),
        ("from triton import jit", "triton"),
        ("from tvm_ffi.cpp import load_inline", "cpp"),
        ("# import triton", "cpp"),
        ("def f(:", "cpp"),
    ],
)
def test_the_dialect_is_seen_from_the_imports(source, dialect):
    assert dialects.detect(source) == dialect


def test_the_panel_shows_a_speedup_that_was_measured_again():
    verdict = Verdict(
        **{
            "task_id": "t",
            "candidate": "c",
            "status": "correct",
            "stage": "correct",
            "dialect": "cpp",
            "device": "cpu",
        },
        speedup=Speedup(median=2.0, low=1.9, high=2.1, pairs=9),
        retest=Speedup(median=4.0, low=3.9, high=4.1, pairs=9),
    )
    assert dict(check._rows(verdict))["retest"].startswith("4.00 (3.90 to 4.10)")


def test_what_was_counted_on_a_gpu_is_rounded():
    counters = GpuCounters(kernel="relu", launches=2, microseconds=49.312345678, dram=0.91372222)
    passed = {"status": "correct", "stage": "correct"}
    verdict = Verdict(task_id="t", candidate="c", dialect="cuda", device="cuda", **passed, gpu_counters=(counters,))
    assert dict(check._rows(verdict))["counted"] == "kernel=relu launches=2 microseconds=49.31 dram=0.9137"
