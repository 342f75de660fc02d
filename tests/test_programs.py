"""Many programs at a time leave in memory what one after the other does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNELS = Path(__file__).parent / "triton_kernels.py"
CASES = re.findall(r"^@case\ndef (\w+)", KERNELS.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # read when triton.language is imported
    result = subprocess.run([sys.executable, KERNELS], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.parametrize("case", CASES)
def test_memory_is_as_if_programs_ran_one_by_one(found: dict[str, Any], case: str) -> None:
    assert found[case]["equal"]
    assert found[case]["shared"] == int(case.startswith(("apart", "by_rows"))), "batches are made where they can be"


def test_a_kernel_that_counts_on_the_order_of_its_programs_gives_something_else(found: dict[str, Any]) -> None:
    same = {name.removeprefix("disordered "): value for name, value in found.items() if name.startswith("disordered ")}
    assert len(same) == 7
    assert {name for name, value in same.items() if not value} == {
        "race_of_a_carry",
        "race_of_an_update",
        "race_of_programs_that_part",
    }


def test_bfloat16_device_functions_and_reductions_are_computed_as_on_a_gpu(found: dict[str, Any]) -> None:
    right = {name: value for name, value in found.items() if name.startswith("right ")}
    assert len(right) == 4
    assert all(right.values()), right


COMPILED = """
import sys
from pathlib import Path

from kernelrl.executor.contest import compiled_kernels
from kernelrl.executor.contest.text_module import import_text

compiled_kernels.install()
print(import_text(sys.stdin.read(), Path("."))."""
TEXT = '''\
import triton
import triton.language as tl

# \u2028 a comment of several lines, for those who count like that \x0c
@triton.jit(debug="""
def kernel(out):
    tl.store(out, 42.0)
""" == "")
def kernel(out):
    """Stores.

    def kernel(out): nothing.
    """
    tl.store(out, 1.0)
'''


def test_the_compiler_gets_the_kernel_that_was_read() -> None:
    program, environment = f"{COMPILED}kernel.src)", os.environ | {"TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", program]
    finished = subprocess.run(command, input=TEXT, env=environment, capture_output=True, text=True)
    assert "42" not in finished.stdout and "tl.store(out, 1.0)" in finished.stdout, finished.stderr
