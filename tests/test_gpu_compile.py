"""GPU kernels on the CPU: compiled for a named architecture, and the verdict says what that showed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from candidate_files import GPU, HERE, from_file, header
from conftest import Kept
from executor_cases import FAST, judge
from kernelrl import dialects
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.building.cubin import kernels_only
from kernelrl.executor.judging.trials import may_use_tf32
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer
from kernelrl.executor.processes.warming import start_forkserver

pytestmark = pytest.mark.slow

TASK = dialects.EXAMPLE_TASK.replace("1024, 1024", "16, 256")
TRITON = dialects.get("triton").example
CUDA = dialects.get("cuda").example

HALF_THE_GRID = HERE / "gpu" / "exploits" / "half_the_grid.py"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "gpu_arch": "sm_90"}) as engine:
        yield engine


def test_a_triton_kernel_is_interpreted_and_assembled(executor: Executor) -> None:
    verdict = judge(executor, TRITON, TASK, "triton")
    assert verdict.correct and verdict.interpreted and verdict.speedup is None
    [built] = verdict.gpu_builds
    assert (built.kernel, built.arch, built.ok) == ("relu_scale", "sm_90", True)
    assert built.registers and built.registers > 8 and built.spill_bytes == 0 and built.shared_bytes == 0


def test_what_only_the_interpreter_accepts_does_not_compile(executor_cache: Path) -> None:
    odd = TRITON.replace("tl.maximum(x, 0.0)", '{"positive": tl.maximum(x, 0.0)}["positive"]')
    settings = {**FAST, "cache_dir": str(executor_cache), "gpu_arch": "sm_90", "static_rules": False}
    with make_executor(settings) as executor:
        verdict = judge(executor, odd, TASK, "triton")
    assert verdict.status == "compile_error" and verdict.stage == "legal"
    assert "Dict" in verdict.feedback


def test_nothing_but_kernels_and_constants_is_imported_to_compile() -> None:
    source = TRITON.replace("import torch\n", "import torch\nSCALE = 2.0\nTABLE = print('imported')\n")
    text = kernels_only(ast.parse(source))
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


@needs_nvcc
def test_what_the_gpu_check_tries_is_as_it_says_as_far_as_a_cpu_can_tell(executor_cache: Path) -> None:
    settings = {**FAST, "cache_dir": str(executor_cache), "gpu_arch": "sm_90", "build_timeout_s": 600.0}
    told = [path for path in GPU if "honest" in path.parts or "on a CPU" in header(path)]  # others would compile alone
    tried = [path for path in (*told, HALF_THE_GRID) if header(path).get("on a CPU") != "left out"]
    with make_executor(settings) as engine:
        verdicts = dict(zip(tried, engine.evaluate([from_file(path) for path in tried]), strict=True))
    for path, verdict in verdicts.items():
        honest, interpreted = "honest" in path.parts, header(path)["dialect"] == "triton"
        default = "correct" if honest and interpreted else "not_run"
        status, *rules = header(path).get("on a CPU", default).split()
        assert verdict.status == status, (path, verdict.feedback)
        assert {violation.rule for violation in verdict.violations} == set(rules), (path, verdict.violations)


@pytest.fixture(scope="module")
def forkserver() -> Iterator[ForkServer]:
    warming = start_forkserver({"PATH": os.environ["PATH"], "TRITON_INTERPRET": "1"})
    yield ForkServer(warming, on_death=lambda: None)
    warming.end()


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "foul"),
    [
        ("honest/cuda_softmax_shared", []),
        ("exploits/own_stream_native", ["cudaStreamCreateWithFlags"]),
        ("exploits/host_callback", ["cudaLaunchHostFunc"]),
    ],
)
def test_a_cuda_module_launches_and_does_nothing_else(
    forkserver: ForkServer, tmp_path: Path, name: str, foul: list[str]
) -> None:
    tree = ast.parse((HERE / f"gpu/{name}.py").read_text())
    source = next(node.value.value for node in tree.body if isinstance(node, ast.Assign) and "SOURCE" in ast.dump(node))
    unit = {"loader": "tvm_ffi", "name": "m", "cuda": [source]}
    unit |= dict.fromkeys(("cpp", "functions", "cflags", "cuda_cflags", "ldflags"), [])
    (tmp_path / "scratch").mkdir()
    built = Builder(tmp_path, tmp_path / "scratch", forkserver, Cores(1), 600.0, gpu_arch="sm_90").build(unit)
    assert built.ok and built.path is not None, built.log
    assert [evidence for _, evidence in built.violations] == foul


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_gpu_check_says_that_there_is_no_gpu() -> None:
    script = HERE.parent / "benchmarks" / "gpu_check.py"
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert result.returncode == 3
    assert "no CUDA device" in result.stdout


@pytest.mark.parametrize(
    ("source", "device", "may"),
    [
        ("total += tl.dot(a, b)", "cuda", True),
        ("total += tl.dot(a, b)", "cpu", False),
        ('total += tl.dot(a, b, input_precision="ieee")', "cuda", False),
        ("total += tl.dot(a, b, allow_tf32=False)", "cuda", False),
        ("total += tl.sum(a * b)", "cuda", False),
    ],
)
def test_a_product_that_triton_makes_in_tf32_is_known(source: str, device: str, may: bool) -> None:
    assert may_use_tf32(source, device) == may
