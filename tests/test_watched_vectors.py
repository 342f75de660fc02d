"""What stands for vector intrinsics in builds that find mistakes does what they do."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from kernelrl.executor.building import watched_vectors

CALLS = {
    "mask_load": "keep(out, {name}(like<{vector}>(other), mask, from))",
    "maskz_load": "keep(out, {name}(mask, from))",
    "maskload": "keep(out, {name}(from, like<{integers}>(other)))",
    "mask_store": "{name}(to, {mask}, like<{vector}>(other))",
    "stream": "{name}(to, like<{vector}>(other))",
    "stream_load": "keep(out, {name}(from))",
    "broadcast": "keep(out, {name}(from))",
    "stream_number": "{name}(to, -7)",
    "load_half": "keep(out, {name}(like<{vector}>(other), from))",
    "store_half": "{name}(to, like<{vector}>(other))",
    "load_first": "keep(out, {name}(from))",
    "mask_load_first": "keep(out, {name}(like<{vector}>(other), mask, from))",
    "maskz_load_first": "keep(out, {name}(mask, from))",
    "mask_store_first": "{name}(to, mask, like<{vector}>(other))",
    "store_first": "{name}(to, like<__m128i>(other))",
    "mask_move": "{name}(like<__m128i>(other), like<__m128i>(other + 16), to)",
    "mask_narrow": "{name}(to, mask, like<{integers}>(other))",
    "mask_expand": "keep(out, {name}(like<{vector}>(other), mask, from))",
    "maskz_expand": "keep(out, {name}(mask, from))",
    "mask_compress": "{name}(to, mask, like<{vector}>(other))",
    "gather": "keep(out, {name}(from, like<{indices}>(places), 4))",
    "mask_gather": "keep(out, {name}(like<{half}>(other), from, like<{indices}>(places), like<{half}>(other), 4))",
    "gather_512": "keep(out, {name}(like<{indices}>(places), from, 4))",
    "mask_gather_512": "keep(out, {name}(like<{half}>(other), mask, like<{indices}>(places), from, 4))",
    "scatter": "{name}(to, like<{indices}>(places), like<{half}>(other), 8)",
    "mask_scatter": "{name}(to, mask, like<{indices}>(places), like<{half}>(other), 8)",
}
"""By the function that stands for an intrinsic: how either is called."""
BEFORE = """\
#include <immintrin.h>
#include <cstdint>
#include <cstdio>
#include <cstring>

alignas(64) static char memory[4096], other[64], out[64];
static int64_t places[8];
static uint64_t mask;

struct Pointer {
  template <class T>
  operator T*() const { return reinterpret_cast<T*>(memory + 1024); }
} from, to;

template <class V>
V like(const void* bytes) {
  V value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class V>
void keep(char* out, V value) { std::memcpy(out, &value, sizeof value); }
"""
MAIN = """\
static int num_tried;

static void reset(unsigned seed) {
  for (char& byte : memory) byte = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
  for (char& byte : other) byte = static_cast<char>((seed = seed * 1103515245 + 12345) >> 16);
  std::memset(out, 0, sizeof out);
  mask = (uint64_t{seed} << 32) ^ (seed * 2654435761u);
}

static void compare(const char* name, void (*first)(), void (*second)(), bool short_indices) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    char expected[sizeof memory + sizeof out];
    for (int i = 0; i < 8; ++i) places[i] = static_cast<int64_t>((i * 5 + seed) % 64) - 20;
    for (int i = 0; short_indices && i < 16; ++i)
      reinterpret_cast<int32_t*>(places)[i] = static_cast<int32_t>((i * 7 + seed) % 64) - 20;
    reset(seed);
    first();
    std::memcpy(expected, memory, sizeof memory);
    std::memcpy(expected + sizeof memory, out, sizeof out);
    reset(seed);
    second();
    if (std::memcmp(expected, memory, sizeof memory) || std::memcmp(expected + sizeof memory, out, sizeof out)) {
      std::printf("another result: %s\\n", name);
      return;
    }
  }
  ++num_tried;
}
"""


def types_of(name: str, function: str) -> dict[str, str]:
    """The types with which an intrinsic is called."""
    bits = int(re.match(r"_mm(\d*)", name)[1] or 128)  # type: ignore[index]
    end = name.rpartition("_")[2]
    of_four, by_i64 = end in ("ps", "epi32"), "i64" in name.split("_")[-2]
    suffix = {"ps": "", "pi": "", "ss": "", "pd": "d", "sd": "d"}.get(end, "i")
    halves = bits // 2 if by_i64 and of_four and bits > 128 else bits
    wide_indices = bits if by_i64 or of_four else max(bits // 2, 128)
    return {
        "vector": f"__m{bits}{suffix}",
        "integers": f"__m{bits}i",
        "half": f"__m{halves}{suffix}",
        "indices": f"__m{wide_indices}i",
        "mask": f"like<__m{bits}i>(other)" if "_maskstore_" in name else "mask",
    }


def test_each_gives_what_the_processor_gives(tmp_path: Path) -> None:
    intrinsics = list(watched_vectors._intrinsics())
    assert all(count == 1 for count in Counter(name for _, name, _ in intrinsics).values())
    calls = []
    for needed, name, function in intrinsics:
        call = CALLS[function.partition("<")[0]].format(name=name, **types_of(name, function))
        calls.append((needed, name, call))
    processors = "".join(
        f"#if {needed}\nstatic void own{name}() {{ {call}; }}\n#endif\n" for needed, name, call in calls
    )
    watched = "".join(
        f"#if {needed}\nstatic void other{name}() {{ {call}; }}\n#endif\n" for needed, name, call in calls
    )
    main = "".join(
        f'#if {needed}\n  compare("{name}", own{name}, other{name}, {int("_i32" in name)});\n#endif\n'
        for needed, name, _ in calls
    )
    text = f"{BEFORE}{processors}{watched_vectors.before_text('_mm')}{watched}{MAIN}"
    (tmp_path / "main.cpp").write_text(f'{text}int main() {{\n{main}  std::printf("%d\\n", num_tried);\n}}\n')
    command = "g++ -std=c++17 -O1 -march=native -w main.cpp -o main && ./main"
    found = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert not found.stderr
    told = found.stdout.split()
    assert "another" not in told, found.stdout
    assert int(told[-1]) >= 12, "those that every processor of this kind has"


def test_a_text_without_intrinsics_stays_as_it_is() -> None:
    assert not watched_vectors.before_text("for (int i = 0; i < n; ++i) out[i] = mm[i];")
