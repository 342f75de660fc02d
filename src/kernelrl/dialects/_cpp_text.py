"""Rules on the text of C++: which headers it may include, and which words no kernel needs.

The text is hostile, so every step is linear in its length: the patterns are RE2's, and each lexeme is looked at once,
because a comment or a string that is never closed runs to where the compiler ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

import re2

ALLOWED_INCLUDE = re2.compile(
    r"(tvm/ffi/[\w/]+\.h|torch/extension\.h|omp\.h|(imm|[aenpstwxz]mm|x86)intrin\.h|arm_neon\.h|c?(math|stdint|stddef|string|float|limits)"
    r"(\.h)?|algorithm|array|vector|numeric|utility|type_traits|cfloat|climits|cstdlib|limits|tuple|functional|bit|complex|"
    r"initializer_list|memory|iostream|sstream|iomanip|cstdio|c?inttypes(\.h)?|(stdlib|stdio|assert)\.h|cassert|exception|stdexcept|"
    r"iterator|numbers|queue|deque|list|stack|map|set|unordered_(map|set)|bitset|valarray|optional|variant|span|string_view|"
    r"ranges|concepts|compare|new|atomic|random|chrono|ATen/(ATen|Parallel|Dispatch|AccumulateType|OpMathType|core/Tensor)\.h|c10/(core/ScalarType|util/(irange|Optional|ArrayRef|Half|BFloat16|Exception))\.h|torch/(torch|types|all|script|python)\.h|pybind11/(pybind11|stl)\.h|cuda(_runtime|_fp16|_bf16)?\.h|mma\.h|cooperative_groups(/.*)?\.h|cub/cub\.cuh)"
)
_CLOCK = rb"std::chrono|clock_gettime|gettimeofday|omp_get_w(time|tick)|_*(builtin_ia32_)?(rdtscp?|rdpmc|tpause|umwait)"
FORBIDDEN_WORD = re2.compile(
    rb"\b((dlopen|dlsym|dlmopen|system|popen|fork|vfork|execve?|ptrace|syscall|mmap|memfd_create|pthread_create|"
    rb"[sdcz]gemm_?)\s*\(|(__)?asm(__)?\b|at::\w*|torch::\w*|c10::\w*|cblas_\w+|mkl_\w+|std::(thread|async|jthread)|"
    rb"__volatile__|PyRun_\w+|Py[A-Z]\w+|py::\w*|pybind11::\w*|tvm::ffi::(Typed)?(Packed)?Function\b|link_map|_GLOBAL_OFFSET_TABLE_|_DYNAMIC|"
    rb"_r_debug|_rtld_\w+|ElfW|Elf64_\w+|__has_include|__has_embed|init_priority|"
    rb"_*(section|alias|ifunc|symver|constructor|destructor|weakref|naked)_*\s*[(\])]|"
    rb"(" + _CLOCK + rb")\b)"
)
"""No kernel needs these: other code, threads, PyTorch or BLAS instead of computing, a place in the binary, a clock."""
_HARMLESS_OF_TORCH = re2.compile(
    rb"(at|torch|c10)::(BFloat16|Half|k[A-Z]\w+|ScalarType|IntArrayRef|ArrayRef|Device|DeviceType|Scalar|MemoryFormat|"
    rb"optional|nullopt|TensorOptions|SmallVector|irange)|"
    rb"(at|torch)::(Tensor|Dtype|empty|empty_strided|zeros|ones|full|scalar_tensor|"
    rb"TensorAccessor|PackedTensorAccessor(32|64)?|NoGradGuard|CppTypeToScalarType)|"
    rb"(at|torch|c10)::InferenceMode|(py|pybind11)::gil_scoped_release|"
    rb"torch::(tensor|dtype|device|wrap_pybind_function)|(at|torch)::(empty|zeros|ones|full)_like|at::(parallel_for|get_num_threads|get_thread_num|opmath_type|acc_type|divup)"
)
_INSTEAD = {
    "c10": "write std::optional<torch::Tensor>, std::nullopt, float",
    "at::cuda": "launch on the default stream, as kernel<<<grid, block>>>(…)",
    "c10::cuda": "launch on the default stream, as kernel<<<grid, block>>>(…)",
    "at": "the kernel computes; views, copies and conversions are methods of torch::Tensor",
    "torch": "the kernel computes; views, copies and conversions are methods of torch::Tensor",
    "py": "load_inline(functions=[…]) binds what it names",
    "pybind11": "load_inline(functions=[…]) binds what it names",
}
"""By how a forbidden word begins: what to write."""
_IS_CLOCK = re2.compile(_CLOCK)
_SPLICE = re2.compile(rb"\\[ \t\v\f\r]*\n")
_INCLUDE = re2.compile(rb"[\s\v]*#[\s\v]*(include(?:_next)?|embed|import)\b[\s\v]*(.*)")
_LEXEME = re2.compile(
    rb'//|/\*|(?:u8|[uUL])?R"[^\s()\\"]{0,16}\(|(?:u8|[uUL])?["\']|'  # what opens a comment, a raw string, a string
    rb"\.?[0-9](?:'?[\w.])*|[A-Za-z_]\w*"  # a number, whose ' opens nothing, and a name
)
_REST_OF_TEXT = {quote: re2.compile(rb"(?s:(?:\\.|[^\\\n%s])*)%s?" % (quote, quote)) for quote in (b'"', b"'")}
"""By quote: what follows it in a string or a character, up to the end of the line where it is not closed."""


def forbidden_includes(text: str) -> list[str]:
    """Include directives of C++ text that name no header of `ALLOWED_INCLUDE`."""
    found = []
    for line in _without_comments(text).split(b"\n"):
        if directive := _INCLUDE.match(line):
            kind, target = (part.decode().strip() for part in directive.groups())
            quoted = len(target) > 2 and target[0] in '<"' and target[-1] in '>"'
            if kind != "include" or not quoted:
                found.append(f"#{kind} {target}"[:200])
            elif not ALLOWED_INCLUDE.fullmatch(target[1:-1]):
                found.append(f"#include {target}"[:200])
    return found


def forbidden_words(text: str) -> list[tuple[str, int]]:
    """Words of C++ text, outside comments and strings, that no kernel needs, each with the line of its first place."""
    parts = list(_parts(text))
    code = b"".join(part if kind == "code" else _blank(part) for kind, part in parts)
    found: dict[str, int] = {}
    line, counted = 0, 0
    joined = _SPLICE.search(text.encode("utf-8", "replace"))
    for kind, part in parts:  # what follows one of these may be read in two ways
        if (kind == "raw" and joined) or b"??/" in part:
            found["a raw string beside lines that end in a backslash" if kind == "raw" else "??/"] = line
        line += part.count(b"\n")
    line = 0
    for match in FORBIDDEN_WORD.finditer(code):
        if _HARMLESS_OF_TORCH.fullmatch(match.group()):
            continue
        line += code.count(b"\n", counted, match.start())
        counted = match.start()
        word = match.group().decode().rstrip(" \t\n\r\v\f([])")
        instead = (
            "a candidate has no clock"
            if _IS_CLOCK.fullmatch(match.group())
            else _INSTEAD.get(word, _INSTEAD.get(word.split("::")[0]))
        )
        found.setdefault(f"{word}: {instead}" if instead else word, line)
    return sorted(found.items())


def without_includes(text: str) -> str:
    """The text without its comments and include directives."""
    lines = _without_comments(text).split(b"\n")
    return b"\n".join(b"" if _INCLUDE.match(line) else line for line in lines).decode()


def _without_comments(text: str) -> bytes:
    return b"".join(_blank(part) if kind == "comment" else part for kind, part in _parts(text))


def _blank(part: bytes) -> bytes:
    return b" " + b"\n" * part.count(b"\n")


def _parts(text: str) -> Iterator[tuple[str, bytes]]:
    """The text in pieces: `code`, `comment`, `string` and `raw` (string). Lines are joined, digraphs and a trigraph
    replaced: after a raw string, in which they are not, nothing is certain."""
    data = text.encode("utf-8", "replace").replace(b"??=", b"#")
    data = _SPLICE.sub(b"", data).replace(b"%:", b"#")
    begin = position = 0
    while lexeme := _LEXEME.search(data, position):
        start, position = lexeme.span()
        opening = lexeme.group()
        if opening == b"//":
            kind, end = "comment", data.find(b"\n", position)
        elif opening == b"/*":
            kind, end = "comment", _after(data, b"*/", position)
        elif opening.endswith(b"("):
            kind, end = "raw", _after(data, b")" + opening.partition(b'"')[2][:-1] + b'"', position)
        elif opening[-1:] in _REST_OF_TEXT:
            rest = _REST_OF_TEXT[opening[-1:]].match(data, position)
            kind, end = "string", rest.end()
        else:
            continue
        position = len(data) if end < 0 else end
        yield "code", data[begin:start]
        yield kind, data[start:position]
        begin = position
    yield "code", data[begin:]


def _after(data: bytes, closing: bytes, position: int) -> int:
    found = data.find(closing, position)
    return -1 if found < 0 else found + len(closing)
