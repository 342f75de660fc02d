"""What a native module may want from other libraries: a list of all that it may, because a cheat needs one gap."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelrl.executor.legality.operators import PLUMBING

_MATH = (
    "a?(sin|cos|tan)h?|exp(2|10|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]?gamma(_r)?|floor|ceil|trunc|l?l?r(ound|int)|"
    "nearbyint|fmod|remainder|remquo|f(max|min|dim|ma|abs)|copysign|ldexp|frexp|modf|scalbl?n|ilogb|nextafter|sincos"
)
KNOWN_SYMBOLS = re.compile(
    rf"(({_MATH})[fl]?|_ZGV\w+|__\w+_finite|__(extend|trunc)([hbsdxt]f){{2}}2|__(eq|ne|[lg][te]|unord)hf2|"
    r"mem(cpy|move|set|cmp|chr)|str(len|n?cmp|r?chr|str)|malloc|free|calloc|realloc|aligned_alloc|posix_memalign|abort|qsort|"
    r"f?printf|v?snprintf|puts|putchar|fputc|fputs|fwrite|stderr|stdout|__\w+_chk|__assert_fail|__stack_chk_fail|l?l?abs|"
    r"__libc_single_threaded|__cxa_\w+|__gxx_personality_v0|__gmon_start__|_Unwind_\w+|_ITM_\w+|__tls_get_addr|__dynamic_cast|"
    r"GOMP_\w+|omp_(?!fulfill)\w+|TVMFFI(?!FunctionCall|FunctionGetGlobal|FunctionSetGlobal|EnvRegister)\w+|"
    r"(typeinfo|vtable|VTT|guard variable|construction vtable|typeinfo name) for .*|operator (new|delete).*|"
    r"(non-virtual thunk to )?tvm::ffi::.*|"
    r"((unsigned |bool|void|char|int|long|const|double|float|size_t|[\w:]+<.*>|std::[\w:]+)[&* ]+)*"
    r"std::(?!thread|jthread|this_thread|__future|async|filesystem|chrono|random_device|basic_[io]?f|.*filebuf).*)(@.*)?"
)
"""Undefined symbols that a genuine kernel's module may have: arithmetic, memory, OpenMP, runtime libraries."""
KNOWN_TORCH_SYMBOLS = re.compile(
    r"(.*(c10::|caffe2::|torch::(?!jit)|pybind11::|at::(Tensor\b|TensorBase|OptionalTensorRef|impl|_ops::)).*|_?Py\w+|"
    r"pthread_(key|mutex|get|set)\w+|fflush|strdup|strtol|getenv|environ|dl_iterate_phdr|__errno_location)(@.*)?"
)
"""What a module made by torch's loader has beside those."""
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
_PLUMBING = re.compile(f"({'|'.join(re.escape(name.removeprefix('aten::')) for name in sorted(PLUMBING))})(_.*)?")
"""Operators of PyTorch's that are allowed, with the overload's name behind an underscore."""
_ADDRESS = re.compile(r"R_\w+_(?:GLOB_DAT|64|ABS64)\s+0+\s+([A-Za-z]\w*)")
"""Relocation of another library's C symbol whose address is taken rather than called."""
_KNOWN_ADDRESSES = re.compile(r"stdout|stderr|TVMFFI\w+|Py\w+|environ")


KNOWN_CUDA_SYMBOLS = re.compile(
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
        known = KNOWN_SYMBOLS.fullmatch(symbol) or (loader == "torch" and KNOWN_TORCH_SYMBOLS.fullmatch(symbol))
        known = known or (cuda and KNOWN_CUDA_SYMBOLS.fullmatch(symbol))
        if not known or (operator is not None and not _PLUMBING.fullmatch(operator[1])):
            found.append(symbol.partition("@")[0][:100])
    return found


def foreign_addresses(relocations: str) -> list[str]:
    """C symbols of other libraries whose address a module takes: what is called through it is not seen.

    Args:
        relocations: what `readelf -r` says of the module.
    """
    return sorted({name for name in _ADDRESS.findall(relocations) if not _KNOWN_ADDRESSES.fullmatch(name)})
