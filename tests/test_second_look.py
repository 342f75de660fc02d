"""`executor.sanitize`: a kernel that is right is looked at once more, for memory that is not its own and for races.

Every kernel here is right in all that it returns. Without the second look it is `correct`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import candidate_files
from conftest import KERNELS, REFERENCE, Kept
from executor_cases import FAST, judge
from kernelrl.candidate import Candidate
from kernelrl.errors import InfrastructureError
from kernelrl.executor import Executor, ExecutorSettings, make_executor
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.match import Match
from kernelrl.executor.judging.second_look import look_again

pytestmark = pytest.mark.slow

RIGHT = KERNELS["right"]
UNTIMED = {**FAST, "timing": False}


@pytest.fixture(scope="module")
def looking_twice(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**UNTIMED, "cache_dir": str(executor_cache), "sanitize": True}) as engine:
        yield engine


@pytest.fixture(scope="module")
def looking_once(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**UNTIMED, "cache_dir": str(executor_cache)}) as engine:
        yield engine


def native(body: str) -> str:
    """A kernel with this in place of its loop."""
    loop = RIGHT[RIGHT.index("  #pragma") : RIGHT.index('}\n"""')]
    return RIGHT.replace(loop, f"{body}\n")


def doubled(value: str) -> str:
    return f"({value} > 0.0f ? 2.0f * {value} : 0.0f)"


LOOP = "for (int64_t i = 0; i < n; ++i)"
OUT_OF_BOUNDS = {
    "reads behind an input": f"{LOOP} {{ volatile float next = a[i + 1]; (void)next; o[i] = {doubled('a[i]')}; }}",
    "reads before an input": f"{LOOP} {{ volatile float last = a[i - 1]; (void)last; o[i] = {doubled('a[i]')}; }}",
    "reads a vector too many": f"""volatile float sum = 0;
  for (int64_t i = 0; i < n + 8; i += 8) {{ for (int j = 0; j < 8; ++j) sum = a[i + j]; }}
  {LOOP} o[i] = {doubled("a[i]")};""",
    "writes behind an output": f"for (int64_t i = 0; i <= n; ++i) o[i] = {doubled('a[i]')};",
    "writes behind its own buffer": f"""float* buffer = new float[16];
  for (int j = 0; j <= 16; ++j) buffer[j] = 1.0f;
  {LOOP} o[i] = {doubled("a[i]")} * buffer[i % 16];
  delete[] buffer;""",
    "reads what it has freed": f"""float* buffer = new float[16]();
  delete[] buffer;
  volatile float gone = buffer[3]; (void)gone;
  {LOOP} o[i] = {doubled("a[i]")};""",
    "reads behind a vector, in memory that it has reserved": f"""std::vector<float> buffer;
  buffer.reserve(32);
  buffer.resize(16, 1.0f);
  volatile float next = buffer[16]; (void)next;
  {LOOP} o[i] = {doubled("a[i]")} * buffer[i % 16];""",
    "writes behind an output by a mask": f"""{LOOP} o[i] = {doubled("a[i]")};
  _mm256_maskstore_ps(o + n - 4, _mm256_set_epi32(0, 0, 0, -1, 0, 0, 0, 0), _mm256_setzero_ps());""",
    "reads behind an input by indices": f"""{LOOP} o[i] = {doubled("a[i]")};
  volatile __m256 some = _mm256_i32gather_ps(a, _mm256_set1_epi32(static_cast<int>(n)), 4); (void)some;""",
    "writes behind an output past the cache": f"""{LOOP} o[i] = {doubled("a[i]")};
  _mm_stream_si32(reinterpret_cast<int*>(o + n), 0);""",
    "writes narrow numbers behind an output": f"""{LOOP} o[i] = {doubled("a[i]")};
  _mm_maskmoveu_si128(_mm_setzero_si128(), _mm_set_epi32(-1, -1, 0, 0), reinterpret_cast<char*>(o + n - 2));""",
    "reads a number behind an input": f"""{LOOP} o[i] = {doubled("a[i]")};
  volatile __m128i last = _mm_loadu_si32(reinterpret_cast<const char*>(a + n) - 1); (void)last;""",
    "reads half of a vector behind an input": f"""{LOOP} o[i] = {doubled("a[i]")};
  volatile __m256 last = _mm256_loadu_ps(a + n - 4); (void)last;""",
    "copies to where it copies from": f"""std::vector<float> buffer(a, a + n);
  std::memcpy(buffer.data() + 1, buffer.data(), (n - 1) * sizeof(float));
  {LOOP} o[i] = {doubled("a[i]")};
  volatile float seen = buffer[n / 2]; (void)seen;""",
    "reads by a value that inputs have seldom": f"""std::vector<float> table(16);
  for (int64_t i = 0; i < n; ++i) {{
    const int at = std::fabs(a[i]) < 1000.0f ? static_cast<int>(std::fabs(a[i])) : 16;
    volatile float seen = at < 12 ? 0.0f : table.data()[at]; (void)seen;
    o[i] = {doubled("a[i]")};
  }}""",
    "in a thread": f"#pragma omp parallel for\n  {LOOP} {{ volatile float next = a[i + 1]; (void)next; "
    f"o[i] = {doubled('a[i]')}; }}",
    "only without the macros of the sanitizer": f"""#ifndef __SANITIZE_ADDRESS__
  volatile float next = a[n]; (void)next;
#endif
  {LOOP} o[i] = {doubled("a[i]")};""",
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_memory_that_is_not_its_own_is_named_with_the_line(
    name: str, looking_twice: Executor, looking_once: Executor
) -> None:
    source = with_includes(native(OUT_OF_BOUNDS[name]))
    verdict = judge(looking_twice, source)
    assert verdict.status == "incorrect" and verdict.errors[-1].kind in ("memory", "undefined"), verdict.feedback
    assert "kernel.cpp:" in verdict.feedback
    assert judge(looking_once, source).correct, "else this test shows nothing"


def test_undefined_behaviour_is_named_with_the_line(looking_twice: Executor) -> None:
    body = f"""int table[4] = {{1, 2, 3, 4}};
  volatile int64_t at = n % 4 + 4;
  volatile int seen = table[at]; (void)seen;
  {LOOP} o[i] = {doubled("a[i]")};"""
    verdict = judge(looking_twice, native(body))
    assert verdict.status == "incorrect" and verdict.errors[-1].kind in ("undefined", "memory")
    assert "kernel.cpp:" in verdict.feedback


TASK_OF_SHAPES = REFERENCE.replace("256, 1024", "rows, 16").replace("class Model", "rows = 64\n\n\nclass Model")
TASK_OF_SHAPES += '\nSHAPE_RANGES = {"rows": (1, 63)}\n'


def test_hidden_shapes_are_looked_at_too(looking_twice: Executor) -> None:
    body = f"if (n < 1024) {{ volatile float next = a[n]; (void)next; }}\n  {LOOP} o[i] = {doubled('a[i]')};"
    verdict = judge(looking_twice, native(body), TASK_OF_SHAPES)
    assert verdict.status == "incorrect" and verdict.errors[-1].inputs.startswith("rows=")
    assert judge(looking_twice, RIGHT, TASK_OF_SHAPES).correct


TRITON = """\
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask)
    tl.store(out + at, tl.maximum(value, 0.0) * 2.0, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 4096) + 1,)](x, out, x.numel(), BLOCK=4096)
        return out
"""


def test_triton_kernels_keep_to_their_tensors(looking_twice: Executor, looking_once: Executor) -> None:
    honest = judge(looking_twice, TRITON, dialect="triton")
    assert honest.correct and honest.checks == ("memory",)
    source = TRITON.replace("tl.load(x + at, mask=mask)", "tl.load(x + tl.minimum(at, n))")
    verdict = judge(looking_twice, source, dialect="triton")
    assert verdict.status == "incorrect" and "line 11" in verdict.feedback and "0 bytes behind" in verdict.feedback
    assert judge(looking_once, source, dialect="triton").correct, "else this test shows nothing"


@pytest.mark.parametrize("name, checks", [("tuple_of_tensors", ("memory",)), ("table_of_pointers", ())])
def test_triton_kernels_may_get_their_tensors_in_any_way(
    name: str, checks: tuple[str, ...], looking_twice: Executor
) -> None:
    """The origin of an address that comes out of memory is not known, so its kernel is not called wrong."""
    path = candidate_files.HERE / "honest" / f"triton_{name}.py"
    verdict = looking_twice.evaluate([candidate_files.from_file(path)])[0]
    assert verdict.correct and verdict.checks == checks, verdict.feedback


def test_a_tuple_of_tensors_is_kept_to_as_well(looking_twice: Executor) -> None:
    source = TRITON.replace("def double(x, out,", "def double(tensors,").replace("](x, out, x", "]((x, out), x")
    source = source.replace("tl.load(x + at, mask=mask)", "tl.load(tensors[0] + tl.minimum(at, n))")
    verdict = judge(looking_twice, source.replace("tl.store(out", "tl.store(tensors[1]"), dialect="triton")
    assert verdict.status == "incorrect" and "0 bytes behind" in verdict.feedback


SUM = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum().reshape(1)


def get_inputs():
    return [torch.rand(512)]


def get_init_inputs():
    return []
"""


def summing(body: str) -> str:
    return native(body).replace("torch.empty_like(x)", "torch.zeros(1)")


RACES = {
    "a sum without a reduction": f"float sum = 0;\n  #pragma omp parallel for\n  {LOOP} sum += a[i];\n  o[0] = sum;",
    "a variable that all threads share": f"""float part, sum = 0;
  #pragma omp parallel for reduction(+:sum)
  {LOOP} {{ part = a[i]; sum += part; }}
  o[0] = sum;""",
    "a table of threads that is too small": f"""float part[2] = {{0, 0}};
  #pragma omp parallel for
  {LOOP} part[omp_get_thread_num() % 2] += a[i];
  o[0] = part[0] + part[1];""",
    "a table that is said to be there before it is": f"""static float table[512];
  static bool is_there = false;
  #pragma omp parallel for schedule(static)
  {LOOP} {{
    if (!is_there) {{
      is_there = true;
      for (int j = 0; j < 512; ++j) table[j] = std::cos(0.0f * j);
    }}
    #pragma omp atomic
    o[0] += a[i] * table[i];
  }}""",
    "a table of eight threads": f"""float part[8] = {{}};
  #pragma omp parallel for
  {LOOP} part[omp_get_thread_num() % 8] += a[i];
  o[0] = 0;
  for (float each : part) o[0] += each;""",
    "sums that two threads add to, seldom at once": f"""std::vector<float> rows(n, 0.0f);
  #pragma omp parallel for
  for (int64_t half = 0; half < 2; ++half)
    {LOOP} {{
      float sum = 0;
      for (int64_t j = half * n / 2; j < (half + 1) * n / 2; ++j) sum += a[j];
      rows[i] += sum;
    }}
  o[0] = 0;
  {LOOP} o[0] += rows[i] / n;""",
}
RACES_AT_BORDERS = {
    "bits of a byte where two threads meet": f"""std::vector<unsigned char> bits(n / 8 + 1);
  #pragma omp parallel for
  {LOOP} if (a[i] > 0.5f) bits[i / 8] |= 1 << i % 8;
  {LOOP} o[i] = bits[i / 8] >> i % 8 & 1;""",
    "neighbours that every element adds to": """std::fill(o, o + n, 0.0f);
  #pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n - 1; ++i) { o[i] += a[i]; o[i + 1] += a[i]; }""",
}
BORDERS = [
    SUM.replace("x.sum().reshape(1)", "(x > 0.5).float()").replace("512", "32008"),
    SUM.replace(
        "x.sum().reshape(1)", "torch.nn.functional.pad(x[:-1], (0, 1)) + torch.nn.functional.pad(x[:-1], (1, 0))"
    ).replace("512", "20000"),
]
RACES_FOR_THE_LARGEST = {
    "nothing guards it": f"""float largest = a[0];
  #pragma omp parallel for
  {LOOP} if (a[i] > largest) largest = a[i];
  o[0] = largest;""",
    "compared before it is guarded, and not again": f"""float largest = a[0];
  #pragma omp parallel for
  {LOOP} if (a[i] > largest) {{
    #pragma omp critical
    largest = a[i];
  }}
  o[0] = largest;""",
    "read and written without anybody between, each by itself": f"""float largest = a[0];
  #pragma omp parallel for
  {LOOP} {{
    float seen;
    #pragma omp atomic read
    seen = largest;
    if (a[i] > seen) {{
      #pragma omp atomic write
      largest = a[i];
    }}
  }}
  o[0] = largest;""",
    "memory that was never written": f"""const int64_t room = 1 << 24;
  float* part = new float[room];
  #pragma omp parallel for
  {LOOP} {{
    float& own = part[omp_get_thread_num() * 512];
    if (a[i] > own) own = a[i];
  }}
  o[0] = part[0];
  for (int t = 1; t < omp_get_max_threads(); ++t) if (part[t * 512] > o[0]) o[0] = part[t * 512];
  delete[] part;""",
}
SYNCHRONISED = {
    "a reduction": f"float sum = 0;\n  #pragma omp parallel for reduction(+:sum)\n  {LOOP} sum += a[i];\n  o[0] = sum;",
    "an atomic": f"float sum = 0;\n  #pragma omp parallel for\n  {LOOP} {{\n  #pragma omp atomic\n  sum += a[i]; }}\n"
    "  o[0] = sum;",
    "a critical section": f"""float sum = 0;
  #pragma omp parallel
  {{
    float part = 0;
    #pragma omp for nowait
    {LOOP} part += a[i];
    #pragma omp critical
    sum += part;
  }}
  o[0] = sum;""",
    "one place for each thread": f"""std::vector<float> part(omp_get_max_threads(), 0.0f);
  #pragma omp parallel for
  {LOOP} part[omp_get_thread_num()] += a[i];
  o[0] = 0;
  for (float each : part) o[0] += each;""",
    "a barrier between two steps": """std::vector<float> half(2, 0.0f);
  #pragma omp parallel
  {
    #pragma omp sections
    {
      #pragma omp section
      for (int64_t i = 0; i < n / 2; ++i) half[0] += a[i];
      #pragma omp section
      for (int64_t i = n / 2; i < n; ++i) half[1] += a[i];
    }
    #pragma omp single
    o[0] = half[0] + half[1];
  }""",
    "compared before it is guarded, and again": f"""float largest = a[0], sum = 0;
  #pragma omp parallel for
  {LOOP} if (a[i] > largest) {{
    #pragma omp critical
    if (a[i] > largest) largest = a[i];
  }}
  {LOOP} sum += a[i];
  o[0] = largest >= a[n - 1] ? sum : 0;""",
    "no threads": f"float sum = 0;\n  {LOOP} sum += a[i];\n  o[0] = sum;",
}
INCLUDES = "#include <algorithm>\n#include <cmath>\n#include <immintrin.h>\n#include <omp.h>\n#include <vector>\n"


def with_includes(source: str) -> str:
    return source.replace('SOURCE = r"""', f'SOURCE = r"""\n{INCLUDES}')


@pytest.mark.parametrize("name", RACES)
def test_threads_that_touch_each_others_memory_are_found(name: str, looking_twice: Executor) -> None:
    verdict = judge(looking_twice, with_includes(summing(RACES[name])), SUM)
    assert verdict.status == "incorrect", verdict.feedback


@pytest.mark.slow
@pytest.mark.parametrize("name, task", list(zip(RACES_AT_BORDERS, BORDERS, strict=True)))
def test_threads_whose_parts_overlap_are_found(name: str, task: str, looking_twice: Executor) -> None:
    verdict = judge(looking_twice, with_includes(native(RACES_AT_BORDERS[name])), task)
    assert verdict.status == "incorrect", verdict.feedback


@pytest.mark.parametrize("name", RACES_FOR_THE_LARGEST)
def test_threads_that_seldom_write_are_found_when_one_of_them_stays_behind(name: str, looking_twice: Executor) -> None:
    task = SUM.replace("x.sum()", "x.max()").replace("rand(512)", "rand(8192)")
    verdict = judge(looking_twice, with_includes(summing(RACES_FOR_THE_LARGEST[name])), task)
    assert verdict.status == "incorrect", verdict.feedback


@pytest.mark.parametrize("name", SYNCHRONISED)
def test_threads_that_wait_for_each_other_are_right(name: str, looking_twice: Executor) -> None:
    verdict = judge(looking_twice, with_includes(summing(SYNCHRONISED[name])), SUM)
    assert verdict.correct, verdict.feedback
    assert "memory" in verdict.checks


HONEST = {
    "integers that wrap": f"""uint32_t seed = 1; int wraps = 2147483647; volatile int one = 1;
  wraps += one;
  {LOOP} {{ seed = seed * 1664525u + 1013904223u; o[i] = {doubled("a[i]")}; }}
  volatile int wrapped = wraps; (void)wrapped;""",
    "an access that is not aligned": f"""const char* bytes = reinterpret_cast<const char*>(a);
  volatile uint32_t odd = *reinterpret_cast<const uint32_t*>(bytes + 1); (void)odd;
  {LOOP} o[i] = {doubled("a[i]")};""",
    "the last element of a buffer": f"""std::vector<float> copy(a, a + n);
  {LOOP} o[i] = {doubled("copy[i]")};""",
    "a copy of nothing": f"""void* volatile nowhere = nullptr;
  std::memcpy(o, nowhere, n - x.numel());
  {LOOP} o[i] = {doubled("a[i]")};""",
    "masked vectors": f"""for (int64_t i = 0; i < 4; ++i) o[i] = {doubled("a[i]")};
  for (int64_t i = 4; i < n; i += 8) {{  // half of the last one lies behind the input
    const __m256i left = _mm256_set1_epi32(static_cast<int>(n - i));
    const __m256i mask = _mm256_cmpgt_epi32(left, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256 values = _mm256_maskload_ps(a + i, mask);
    _mm256_maskstore_ps(o + i, mask, _mm256_mul_ps(_mm256_max_ps(values, _mm256_setzero_ps()), _mm256_set1_ps(2.0f)));
  }}""",
    "vectors that are not aligned": f"""{LOOP} o[i] = {doubled("a[i]")};
  volatile __m256 twice = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(a + 1)); (void)twice;""",
    "memory of threads": f"""#pragma omp parallel
  {{
    std::vector<float> own(64, 2.0f);
    #pragma omp for schedule(dynamic, 7)
    {LOOP} o[i] = a[i] > 0.0f ? own[i % 64] * a[i] : 0.0f;
  }}""",
}


@pytest.mark.parametrize("name", HONEST)
def test_what_kernels_may_do_is_no_mistake(name: str, looking_twice: Executor) -> None:
    verdict = judge(looking_twice, with_includes(native(HONEST[name])))
    assert verdict.correct and "memory" in verdict.checks, verdict.feedback


PRYING = """
        import os
        if os.path.exists("/proc/self/maps") and "libasan" in open("/proc/self/maps").read():
            import pathlib, socket
            for name, attempt in {
                "connect": lambda: socket.create_connection(("127.0.0.1", 22), 1),
                "read": lambda: os.listdir("/root"),
                "write": lambda: pathlib.Path("/tmp/written").write_text("here"),
                "change its module": lambda: open(MODULE, "r+b"),
                "fork": os.fork,
                "execute": lambda: os.execv("/bin/true", ["true"]),
                "kill": lambda: os.kill(os.getppid(), 9),
                ALWAYS
            }.items():
                try:
                    attempt()
                except Exception:
                    continue
                print(f"kernel.cpp:1:1: runtime error: could {name}", flush=True)
"""


def test_under_a_sanitizer_a_candidate_is_confined_too(executor_cache: Path, kept_executor: Kept) -> None:
    """Here the sanitizer's words are the candidate's own: it says what it was able to do."""
    prying = PRYING.replace(
        "MODULE", 'next(line.split()[-1] for line in open("/proc/self/maps") if "kernel.so" in line)'
    )
    source = RIGHT.replace("    def forward(self, x):\n", f"    def forward(self, x):{prying}")
    able = source.replace("ALWAYS", '"speak": lambda: None')
    settings = {**UNTIMED, "cache_dir": str(executor_cache), "sanitize": True, "static_rules": False}
    with kept_executor(settings) as engine:
        confined, speaking = judge(engine, source.replace("ALWAYS", "")), judge(engine, able)
    assert confined.correct, confined.feedback
    assert speaking.feedback == "undefined behaviour in kernel.cpp:1: could speak", "else this test shows nothing"


@pytest.mark.parametrize(
    "asked", ["cpp_sources=SOURCE + f'// {i}', functions='kernel'", "cuda_sources=SOURCE", "cpp_sources=SOURCE * 1000"]
)
def test_a_candidate_cannot_stop_the_second_look(asked: str, executor_cache: Path, kept_executor: Kept) -> None:
    """It asks for builds that it did not need at first, without end, or for such as nobody can make."""
    asking = f"""
import itertools, os
if os.path.exists("/proc/self/maps") and "libasan" in open("/proc/self/maps").read():
    for i in itertools.count():
        try:
            load_inline(name=f"other{{i}}", {asked})
        except RuntimeError:
            pass


class ModelNew"""
    settings = {**UNTIMED, "cache_dir": str(executor_cache), "sanitize": True, "static_rules": False}
    with kept_executor(settings) as engine:
        verdict = judge(engine, RIGHT.replace("class ModelNew", asking, 1))
    assert verdict.correct and "memory" not in verdict.checks, verdict.feedback


def test_a_kernel_that_does_not_bear_the_second_look_is_not_called_wrong(looking_twice: Executor) -> None:
    """It gets no praise either: a larger process may not fit, or be too slow."""
    shy = RIGHT.replace(
        "int64_t n", 'if ((uintptr_t)a % 65536 == 16) TVM_FFI_THROW(ValueError) << "aligned";\n  int64_t n'
    )
    verdict = judge(looking_twice, shy)
    assert verdict.correct


DEEP = """static float deep(int64_t left, float* above) {
  volatile float own[2] = {1.0f, above[0]};
  return left ? deep(left - 1, const_cast<float*>(own)) + own[0] : own[1];
}
"""


def test_a_stack_that_is_full_under_the_sanitizer_alone_is_no_mistake(looking_twice: Executor) -> None:
    """There a frame takes more memory."""
    body = f"float first = 0; volatile float sum = deep(120000, &first); (void)sum;\n  {LOOP} o[i] = {doubled('a[i]')};"
    verdict = judge(looking_twice, native(body).replace("void kernel", f"{DEEP}void kernel", 1))
    assert verdict.correct and "memory" not in verdict.checks, verdict.feedback


def test_a_machine_that_fails_the_second_look_leaves_the_verdict() -> None:
    def fail(*_: object) -> Any:
        raise InfrastructureError("no process starts")

    found = Findings()
    candidate = Candidate(source=RIGHT, dialect="cpp")
    assert "omp" in RIGHT, "else the threads are not looked at"
    match = Match(
        candidate=candidate,
        reference=MagicMock(),
        settings=ExecutorSettings(sanitize=True),
        start=fail,
        builder=MagicMock(),
        library=MagicMock(),
        cores=MagicMock(),
        found=found,
        unreached=[],
        dialect="cpp",
        may_learn=False,
    )
    look_again(match)
    assert found.checks == [] and found.errors == []


def test_a_compiler_without_sanitizers_is_named_at_the_start(
    executor_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "g++"
    found = '"-print-file-name=libasan.so") echo libasan.so ;;'
    compiler.write_text(f'#!/bin/sh\ncase "$1" in {found} *) exec {shutil.which("g++")} "$@" ;; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = {**UNTIMED, "cache_dir": str(executor_cache), "sanitize": True}
    with (
        make_executor(settings) as engine,
        pytest.raises(InfrastructureError, match="without libasan.so .*sanitize=false"),
    ):
        judge(engine, RIGHT)
