"""What is to be built: the unit that a candidate asks for, checked, and the text and flags that it stands for."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import re2
import tvm_ffi.libinfo
from torch.utils import cpp_extension

from kernelrl.executor import machine

BASE_FLAGS = ("-std=c++17", "-fPIC", "-O3", "-march=native", "-fopenmp")
ALLOWED_FLAG = re2.compile(
    r"-(O[0-3sz]|Ofast|g0?|w|W[a-z0-9-]+|pipe|pthread|lm|lgomp|f[a-z0-9-]+|f(vect-cost-model|fp-contract|visibility)=\w+|m[a-z0-9.-]+(=[\w.-]+)?"
    r"|std=(c|gnu)\+\+\w+|D\w+(=\w*)?|shared|fPIC)"
)
OTHER_FLAGS = re2.compile(
    r"-f(no-)?(openmp(-simd)?|lto|pic|pie|PIC|exceptions|rtti|permissive|concepts|coroutines|sized-deallocation|aligned-new|"
    r"visibility(-inlines-hidden)?|threadsafe-statics|common|strict-enums|strict-overflow|enforce-eh-specs|implicit-templates|"
    r"diagnostics-color|ms-extensions|signed-char|unsigned-char|asynchronous-unwind-tables|semantic-interposition|"
    r"freestanding|hosted|ident|merge-all-constants|(function|data)-sections|builtin(-\w+)*)"
)
"""Flags beside those by which the compiler optimises. None reads or writes a file, or hides the text."""
FORBIDDEN_FLAG = re2.compile(r"-f(no-)?(profile|auto-profile|branch-probabilities|save-optimization|plt)")
"""Of the optimisations those that read or write files, and one that takes addresses of functions to call them."""
_NAME = re2.compile(r"[A-Za-z_]\w{0,99}")
CUDA_FLAGS = ("-std=c++17", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-Xcompiler", "-fPIC")
ALLOWED_CUDA_FLAG = re2.compile(
    r"-(O[0-3]|-use_fast_math|use_fast_math|lineinfo|w|-ftz=\w+|-fmad=\w+|-prec-(div|sqrt)=\w+|-?maxrregcount=?\d+"
    r"|std=c\+\+\d+|D\w+(=\w*)?|-expt-(relaxed-constexpr|extended-lambda)|-extended-lambda)"
)
MAX_UNIT_CHARS = 400_000
"""Length of the texts of one unit."""
MAX_WORDS = 64
"""Flags, and functions, of one unit."""
HEADERS = {
    "tvm_ffi": Path(__file__).with_name("binding.h").read_text(encoding="utf-8"),
    "torch": """\
#define TORCH_API_INCLUDE_EXTENSION_H
#include <torch/extension.h>
""",
}
"""By loader: what stands before the candidate's text."""


class BadUnit(Exception):
    """A build request that is refused: rule and evidence."""

    def __init__(self, rule: str, evidence: str):
        super().__init__(evidence)
        self.rule = rule
        self.evidence = evidence


def text_of(unit: dict[str, Any]) -> str:
    """All native code of a unit."""
    return "\n".join((*unit["cpp"], *unit["cuda"]))


def translate(unit: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """Source text, compiler flags and linker flags of a unit, all checked: its content is hostile."""
    _check_form(unit)
    name, functions = unit["name"], unit["functions"]
    for identifier in (name, *functions):
        if not _NAME.fullmatch(identifier):
            raise BadUnit("build_request", f"{identifier[:100]!r} is not a C++ name")
    given = [flag for flag in (*unit["cflags"], *unit["ldflags"]) if flag]  # [""] is how many leave them out
    for flag in given:
        if not ALLOWED_FLAG.fullmatch(flag) or (flag.startswith("-f") and not _is_harmless(flag)):
            raise BadUnit("build_flag", f"{flag[:100]}: leave it out")
    source = "\n".join(unit["cpp"])
    flags = [*BASE_FLAGS, *includes(unit["loader"])]
    flags += [flag for flag in given if not flag.startswith("-l") and flag not in flags]
    link = [flag for flag in given if flag.startswith("-l")]
    if unit["loader"] == "tvm_ffi":
        exports = "".join(f"KERNELRL_EXPORT({function})\n" for function in functions)
        libraries = [f"-L{Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent}", "-ltvm_ffi"]
        return f"{source}\n{exports}", flags, [*libraries, *link]
    exports = "".join(f'  m.def("{it}", torch::wrap_pybind_function({it}));\n' for it in functions)
    module = f"PYBIND11_MODULE({name}, m) {{\n{exports}}}\n" if functions else ""
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    own_name = f'#define TORCH_EXTENSION_NAME {name}\n#line 1 "kernel.cpp"\n'
    return f"{own_name}{source}\n{module}", flags, [*libraries, *link]


def _is_harmless(flag: str) -> bool:
    """Whether a flag that begins with `-f` is an optimisation, or one of the others that are known."""
    name = flag.partition("=")[0]
    known = {name, f"-f{name.removeprefix('-fno-')}"} & machine.optimizations()
    return bool(OTHER_FLAGS.fullmatch(name) or (known and not FORBIDDEN_FLAG.match(name)))


def _check_form(unit: dict[str, Any]) -> None:
    """A request says what it must and no more than is read."""
    if unit.get("loader") not in ("tvm_ffi", "torch"):
        raise BadUnit("build_request", f"loader {unit.get('loader')!s:.50}")
    if not isinstance(unit.get("name"), str):
        raise BadUnit("build_request", "a module without a name")
    for field in ("cpp", "cuda", "functions", "cflags", "cuda_cflags", "ldflags"):
        value = unit.get(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadUnit("build_request", f"{field} is no list of texts")
        if field not in ("cpp", "cuda") and len(value) > MAX_WORDS:
            raise BadUnit("build_request", f"{len(value)} {field}; at most {MAX_WORDS} are taken")
    if "\0" in text_of(unit):
        raise BadUnit("build_request", "a null character in native code, which compilers take for a space")
    if (length := len(text_of(unit))) > MAX_UNIT_CHARS:
        raise BadUnit("build_request", f"{length} characters of native code; at most {MAX_UNIT_CHARS} are compiled")


def translate_cuda(unit: dict[str, Any], arch: str) -> tuple[str, list[str]]:
    """Source text and nvcc's flags of a unit with CUDA sources, all checked."""
    source, _, _ = translate(unit)
    given = [flag for flag in unit["cuda_cflags"] if flag]
    for flag in given:
        if not ALLOWED_CUDA_FLAG.fullmatch(flag):
            raise BadUnit("build_flag", f"{flag[:100]}: leave it out")
    cuda = "\n".join(unit["cuda"])
    text = f'{HEADERS[unit["loader"]]}\n#line 1 "kernel.cu"\n{cuda}\n{source}'
    return text, [*CUDA_FLAGS, f"-arch={arch}", *includes(unit["loader"]), *given]


def includes(loader: str) -> list[str]:
    """Flags that name the folders of a loader's headers."""
    if loader == "tvm_ffi":
        paths = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    else:
        paths = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return [f"-I{path}" for path in dict.fromkeys(paths)]
