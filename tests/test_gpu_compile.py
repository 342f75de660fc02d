"""GPU kernels on a machine without a GPU: compiled for a named architecture, and the verdict says what that showed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from executor_cases import FAST, judge
from kernelrl import dialects
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.cubin import kernels_only

TASK = dialects.EXAMPLE_TASK.replace("1024, 1024", "16, 256")
TRITON = dialects.get("triton").example
CUDA = dialects.get("cuda").example

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which runs them")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.fixture(scope="module")
def executor(executor_cache: Path) -> Iterator[Executor]:
    with make_executor({**FAST, "cache_dir": str(executor_cache), "gpu_arch": "sm_90"}) as engine:
        yield engine


def test_a_triton_kernel_is_interpreted_and_assembled(executor: Executor) -> None:
    verdict = judge(executor, TRITON, TASK, "triton")
    assert verdict.correct and verdict.interpreted and verdict.speedup is None
    [built] = verdict.gpu_builds
    assert (built.kernel, built.arch, built.ok) == ("relu_scale", "sm_90", True)
    assert built.registers and built.registers > 8 and built.spill_bytes == 0 and built.shared_bytes == 0


def test_what_only_the_interpreter_accepts_does_not_compile(executor: Executor) -> None:
    odd = TRITON.replace("tl.maximum(x, 0.0)", '{"positive": tl.maximum(x, 0.0)}["positive"]')
    verdict = judge(executor, odd, TASK, "triton")
    assert verdict.status == "compile_error" and verdict.stage == "legal"
    assert "Dict" in verdict.feedback


def test_nothing_but_kernels_and_constants_is_imported_to_compile() -> None:
    source = TRITON.replace("import torch\n", "import torch\nSCALE = 2.0\nTABLE = print('imported')\n")
    text = kernels_only(source)
    assert "SCALE = 2.0" in text and "tl.store" in text
    assert "print" not in text and "ModelNew" not in text and "import torch" not in text


@needs_nvcc
def test_a_cuda_kernel_is_compiled_and_not_run(executor: Executor) -> None:
    verdict = judge(executor, CUDA, TASK, "cuda")
    assert verdict.status == "not_run" and verdict.stage == "compiled" and not verdict.violations, verdict.feedback
    assert "no GPU" in verdict.feedback and verdict.trials == 0 and verdict.speedup is None
    [built] = verdict.gpu_builds
    assert "relu_scale_kernel" in built.kernel and built.registers and built.spill_bytes == 0


@needs_nvcc
def test_a_cuda_kernel_that_does_not_compile_shows_the_compilers_words(executor: Executor) -> None:
    verdict = judge(executor, CUDA.replace("2.0f;", "2.0f"), TASK, "cuda")
    assert verdict.status == "compile_error" and "kernel.cu" in verdict.feedback


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("__global__ ", ""), "no_kernel"),
        (("<<<(n + 255) / 256, 256, 0, stream>>>", ""), "kernel_not_called"),
        (("__global__", '#include "/etc/passwd"\n__global__'), "forbidden_include"),
        (("cuda_sources=SOURCE", 'cuda_sources=SOURCE, extra_cuda_cflags=["-ccbin=/bin/sh"]'), "build_flag"),
    ],
)
def test_cheats_in_cuda_are_named(executor: Executor, change: tuple[str, str], rule: str) -> None:
    verdict = judge(executor, CUDA.replace(*change), TASK, "cuda")
    assert verdict.status == "illegal" and rule in {violation.rule for violation in verdict.violations}
