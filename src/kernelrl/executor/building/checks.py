"""Builds that are made once more to find mistakes: the flags of each, and what comes with the candidate's text."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Check = Literal["memory", "threads"]
"""`memory`: AddressSanitizer and UndefinedBehaviorSanitizer. `threads`: every access to memory may give way to another
thread (yielding.cpp)."""

FLAGS: dict[Check, tuple[str, ...]] = {
    "memory": (
        "-O1",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-sanitize=alignment,signed-integer-overflow,shift-base,nonnull-attribute,vptr",
        "-fno-sanitize-recover=all",
        "-U__SANITIZE_ADDRESS__",
        "-D_GLIBCXX_SANITIZE_VECTOR=1",
        "-D_GLIBCXX_SANITIZE_STD_ALLOCATOR=1",
    ),
    "threads": ("-O0", "-fsanitize=thread", "-U__SANITIZE_THREAD__"),
}
"""Compiler flags. Not looked for is what the processor does as the kernel's author expects: accesses that are not
aligned, integers that wrap as those of PyTorch do, copies of nothing (out of an empty tensor). The text is the same as
without them. At -O0 a variable that threads share by mistake is one in memory."""
SUPPORT: dict[Check, tuple[Path, ...]] = {"memory": (), "threads": (Path(__file__).with_name("yielding.cpp"),)}
"""Sources compiled without these flags and linked to the module."""
WRAPPED = ("GOMP_parallel", "GOMP_critical_start", "GOMP_critical_name_start", "omp_set_lock")
"""Functions of OpenMP's in whose place others are called (yielding.cpp): before a lock a thread may stay behind."""
LINK: dict[Check, tuple[str, ...]] = {
    "memory": ("-fsanitize=address,undefined",),
    "threads": ("-lm", *(f"-Wl,--wrap={name}" for name in WRAPPED)),
}
"""What the linker is told beside what it always is."""
BUILD = """\
set -e
if [ -e yielding.cpp ]; then g++ -O2 -fPIC -c yielding.cpp; fi
g++ @flags -c main.cpp
g++ -shared -fopenmp -o module.so *.o "$0" "$@"
"""
"""Compile and link, in one confined process. Its arguments are what is linked."""
