"""What a native module may want from other libraries: a list of all that it may, because a cheat needs one gap.

Names are hostile text (a mangled name of a few hundred characters may stand for gigabytes): they come here in bounded
numbers and sizes, and every pattern is RE2's, whose time is linear.
"""

from __future__ import annotations

from collections.abc import Iterable

import re2

from kernelrl.executor.legality.operators import PLUMBING, entry_points

MAX_BYTES = 4_000_000
"""Names of a module, as the linker has them and as C++ would write them: who has more hides something."""
_MATH = (
    "a?(sin|cos|tan)h?|atan2|exp(2|10|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]?gamma(_r)?|floor|ceil|trunc|l?l?r(ound|int)|"
    "nearbyint|fmod|remainder|remquo|f(max|min|dim|ma|abs)|copysign|ldexp|frexp|modf|scalbl?n|ilogb|nextafter|sincos|[jy][01n]|"
    "c(a?(sin|cos|tan)h?|abs|arg|exp|log|pow|sqrt|proj)"
)
KNOWN_SYMBOLS = re2.compile(
    rf"(({_MATH})[fl]?|[lt]gamma[fl]_r|__(mul|div)[sdx]c3|_ZGV\w+|__\w+_finite|__(extend|trunc)([hbsdxt]f){{2}}2|__(eq|ne|[lg][te]|unord)hf2|"
    r"mem(cpy|move|set|cmp|chr)|str(len|n?cmp|r?chr|str)|malloc|free|calloc|realloc|aligned_alloc|posix_memalign|abort|qsort|"
    r"f?printf|v?snprintf|puts|putchar|fputc|fputs|fwrite|stderr|stdout|__\w+_chk|__assert_fail|__stack_chk_fail|l?l?abs|"
    r"__libc_single_threaded|__cxa_\w+|__g(xx|cc)_personality_v0|__gmon_start__|_Unwind_\w+|_ITM_\w+|__tls_get_addr|__dynamic_cast|"
    r"GOMP_\w+|omp_\w+|"
    r"TVMFFI(Error\w+|Tensor\w+|Object(Inc|Dec)Ref|(String|Bytes|BigInt)From\w+|DataType\w+|FunctionCreate|AnyViewToOwnedAny|Backtrace|"
    r"Env(GetStream|TensorAlloc|GetDLPackManagedTensorAllocator)|GetTypeInfo|GetTypeAttrColumn|GetVersion|GetCustomAllocator|"
    r"Type(GetOrAllocIndex|KeyToIndex)|Handle(Init|Deinit)Once)|"
    r"(typeinfo|vtable|VTT|guard variable|construction vtable|typeinfo name) for .*|operator (new|delete).*)(@.*)?"
)
"""Undefined symbols that a genuine kernel's module may have: arithmetic, memory, OpenMP, runtime libraries."""
_BUT_NOT = re2.compile(r"GOMP_parallel\w*_start|omp_fulfill.*|omp_get_w(time|tick)_?")
"""Threads that go on behind the call that started them, and clocks."""
_STANDARD_LIBRARY = re2.compile(
    r"((unsigned |bool|void|char|int|long|const|double|float|size_t|[\w:]+<.*>|std::[\w:]+)[&* ]+)*std::.*"
)
_NOT_OF_THE_STANDARD_LIBRARY = re2.compile(
    r"std::(thread|jthread|this_thread|__future|async|filesystem|chrono|random_device|basic_[io]?f)|filebuf"
)
"""Threads, files, clocks."""
_TORCH_NAMESPACE = re2.compile(
    r"c10::|caffe2::|torch::([^j]|j[^i]|ji[^t])|pybind11::|at::(Tensor\b|TensorBase|OptionalTensorRef|impl|_ops::)|"
    r"at::((init|get)_num_threads|get_thread_num|in_parallel_region|internal::set_thread_num)\("
)
_KNOWN_OF_PYTHON = re2.compile(
    r"(_?Py\w+|pthread_(key|mutex|get|set)\w+|fflush|strdup|strtol|getenv|environ|dl_iterate_phdr|__errno_location)(@.*)?"
)
"""What a module made by torch's loader has beside those."""
_RUNS_TEXT = re2.compile(r"PyRun_\w+|Py_Compile\w+|PyEval_EvalCode\w*|PyMarshal_\w+|PyCode_New\w*")
_OPERATOR = re2.compile(r"at::_ops::(\w+)::")
_PLUMBING = re2.compile(entry_points(PLUMBING))
"""Operators of PyTorch's that are allowed."""
_ADDRESS = re2.compile(r"R_\w+_(?:GLOB_DAT|64|ABS64)\s+0+\s+([A-Za-z]\w*)")
"""Relocation of another library's C symbol whose address is taken rather than called."""
_KNOWN_ADDRESSES = re2.compile(r"stdout|stderr|vsnprintf|TVMFFI\w+|Py\w+|environ")
"""Among them what `std::to_string` formats by: a floating-point number in the text of an error."""
KNOWN_CUDA_SYMBOLS = re2.compile(
    r"(__cuda\w+|cuda(Launch(Cooperative)?Kernel(ExC)?|Get(LastError|ErrorString|ErrorName|Device|DeviceProperties\w*)|PeekAtLastError|"
    r"Func[SG]et\w+|Occupancy\w+|DeviceGetAttribute|Mem(set|cpy)(2D)?Async|Mem(set|cpy)|MemcpyToSymbol(Async)?|"
    r"GetSymbolAddress|StreamIsCapturing|CreateChannelDesc)|cuTensorMapEncode\w+)(@.*)?"
)
"""What a module made by nvcc has beside those: launches, but no streams, events or memory of its own."""


def foreign(symbols: Iterable[str], loader: str, cuda: bool) -> list[str]:
    """Those of a module's undefined symbols that a genuine kernel has no use for.

    Unlike a look at its text, this sees through macros, pasted names and declarations of the candidate's own.
    """
    found = []
    for symbol in symbols:
        operator = _OPERATOR.search(symbol) if loader == "torch" else None
        known = _is_known(symbol) or (loader == "torch" and _is_known_of_torch(symbol))
        known = known or bool(cuda and KNOWN_CUDA_SYMBOLS.fullmatch(symbol))
        if not known or (operator is not None and not _PLUMBING.fullmatch(operator[1])):
            found.append(symbol.partition("@")[0][:100])
    return found


def _is_known(symbol: str) -> bool:
    if KNOWN_SYMBOLS.fullmatch(symbol):
        return not _BUT_NOT.fullmatch(symbol.partition("@")[0])
    return bool(_STANDARD_LIBRARY.fullmatch(symbol)) and not _NOT_OF_THE_STANDARD_LIBRARY.search(symbol)


def _is_known_of_torch(symbol: str) -> bool:
    if _RUNS_TEXT.fullmatch(symbol.partition("@")[0]):
        return False
    return bool(_TORCH_NAMESPACE.search(symbol) or _KNOWN_OF_PYTHON.fullmatch(symbol))


def foreign_addresses(relocations: str) -> list[str]:
    """C symbols of other libraries whose address a module takes: what is called through it is not seen.

    Args:
        relocations: what `readelf -r` says of the module.
    """
    return sorted({name for name in _ADDRESS.findall(relocations) if not _KNOWN_ADDRESSES.fullmatch(name)})
