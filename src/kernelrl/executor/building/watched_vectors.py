"""What stands in the place of vector intrinsics where a build is to find mistakes: see watched_vectors.h."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import re2

_INTRINSIC = re2.compile(r"\b_mm(256|512)?_")
_FUNCTIONS = Path(__file__).with_suffix(".h").read_text(encoding="utf-8")
_LANES = {
    **{"ps": "float", "pd": "double"},
    **{"epi8": "int8_t", "epi16": "int16_t", "epi32": "int32_t", "epi64": "int64_t"},
}
"""By the end of an intrinsic's name: the type of an element."""
_WIDE = ("ps", "pd", "epi32", "epi64")
"""Those of four or eight bytes, which alone have gathers and AVX2's masks."""
_BROADCASTS = {
    **{"_mm_broadcast_ss": "float, __m128", "_mm256_broadcast_ss": "float, __m256"},
    **{"_mm256_broadcast_sd": "double, __m256d"},
    **{"_mm256_broadcast_ps": "__m128, __m256", "_mm256_broadcast_pd": "__m128d, __m256d"},
}
"""Those that fill a vector with what they read: its type, and that of the vector."""
_HALVES = {
    f"_mm_{access}{end}_{kind}": (access, number)
    for access in ("load", "store")
    for kind in ("pi", "pd")
    for number, end in enumerate("lh")
}
"""Those that read or write half a vector: which they do, and with which half."""
_INDICES = {"i32": "int32_t", "i64": "int64_t"}


def before_text(source: str) -> str:
    """What is to stand before a candidate's text: nothing, if it has no vector intrinsics."""
    if _INTRINSIC.search(source) is None:
        return ""
    definitions = (
        f"#if {condition}\n#undef {name}\n#define {name}(...) kernelrl_watched::{function}(__VA_ARGS__)\n#endif\n"
        for condition, name, function in _intrinsics()
    )
    return _FUNCTIONS + "".join(definitions)


def _intrinsics() -> Iterator[tuple[str, str, str]]:
    """For each intrinsic what the processor must have, its name, and the function that stands for it."""
    for bits in (128, 256, 512):
        yield from _streams(bits)
        yield from _masks_of_512(bits)
        yield from _indices_of_512(bits)
    for bits in (128, 256):
        yield from _of_avx(bits)
    for name, types in _BROADCASTS.items():
        yield "defined(__AVX__)", name, f"broadcast<{types}>"
    for bits, number in ((32, "int32_t"), (64, "int64_t")):
        yield "defined(__SSE2__)", f"_mm_stream_si{bits}", f"stream_number<{number}>"
    for name, (access, half) in _HALVES.items():
        yield "defined(__SSE2__)", name, f"{access}_half<{half}>"
    for bits in (16, 32, 64):
        yield "defined(__SSE2__)", f"_mm_loadu_si{bits}", f"load_first<int{bits}_t, __m128i>"
        yield "defined(__SSE2__)", f"_mm_storeu_si{bits}", f"store_first<int{bits}_t>"
    yield "defined(__SSE2__)", "_mm_maskmoveu_si128", "mask_move"
    for end, lane, vector in (("ss", "float", "__m128"), ("sd", "double", "__m128d")):
        yield "defined(__AVX512F__)", f"_mm_mask_load_{end}", f"mask_load_first<{lane}>"
        yield "defined(__AVX512F__)", f"_mm_maskz_load_{end}", f"maskz_load_first<{lane}, {vector}>"
        yield "defined(__AVX512F__)", f"_mm_mask_store_{end}", f"mask_store_first<{lane}>"


def _streams(bits: int) -> Iterator[tuple[str, str, str]]:
    stores, loads = {128: ("SSE2", "SSE4_1"), 256: ("AVX", "AVX2"), 512: ("AVX512F", "AVX512F")}[bits]
    for end, lane in (("ps", "float"), ("pd", "double"), (f"si{bits}", "int64_t")):
        yield f"defined(__{stores}__)", f"{_prefix(bits)}_stream_{end}", f"stream<{lane}>"
    yield f"defined(__{loads}__)", f"{_prefix(bits)}_stream_load_si{bits}", f"stream_load<int64_t, __m{bits}i>"
    if bits < 512:
        needed = {128: "__SSE3__", 256: "__AVX__"}[bits]
        yield f"defined({needed})", f"{_prefix(bits)}_lddqu_si{bits}", f"stream_load<int64_t, __m{bits}i>"


def _of_avx(bits: int) -> Iterator[tuple[str, str, str]]:
    prefix = _prefix(bits)
    for end in _WIDE:
        lane = _LANES[end]
        needed = "defined(__AVX__)" if end in ("ps", "pd") else "defined(__AVX2__)"
        yield needed, f"{prefix}_maskload_{end}", f"maskload<{lane}, {_vector(end, bits)}>"
        yield needed, f"{prefix}_maskstore_{end}", f"mask_store<{lane}>"
        for kind, index in _INDICES.items():
            vector = _vector(end, 128 if _is_half(kind, end) else bits)
            yield "defined(__AVX2__)", f"{prefix}_{kind}gather_{end}", f"gather<{lane}, {index}, {vector}>"
            yield "defined(__AVX2__)", f"{prefix}_mask_{kind}gather_{end}", f"mask_gather<{lane}, {index}>"


def _masks_of_512(bits: int) -> Iterator[tuple[str, str, str]]:
    prefix = _prefix(bits)
    for end, lane in _LANES.items():
        needed, vector = _needs_512(bits, end), _vector(end, bits)
        for aligned in ("u", "") if end in _WIDE else ("u",):
            yield needed, f"{prefix}_mask_load{aligned}_{end}", f"mask_load<{lane}>"
            yield needed, f"{prefix}_maskz_load{aligned}_{end}", f"maskz_load<{lane}, {vector}>"
            yield needed, f"{prefix}_mask_store{aligned}_{end}", f"mask_store<{lane}>"
        needed = needed if end in _WIDE else needed.replace("BW", "VBMI2")
        yield needed, f"{prefix}_mask_expandloadu_{end}", f"mask_expand<{lane}>"
        yield needed, f"{prefix}_maskz_expandloadu_{end}", f"maskz_expand<{lane}, {vector}>"
        yield needed, f"{prefix}_mask_compressstoreu_{end}", f"mask_compress<{lane}>"
    for wide, narrow in ((16, 8), (32, 8), (32, 16), (64, 8), (64, 16), (64, 32)):
        for sign, number in (("", "int"), ("s", "int"), ("us", "uint")):
            types = f"{number}{wide}_t, {number}{narrow}_t, {'true' if sign else 'false'}"
            name = f"{prefix}_mask_cvt{sign}epi{wide}_storeu_epi{narrow}"
            yield _needs_512(bits, f"epi{wide}"), name, f"mask_narrow<{types}>"


def _indices_of_512(bits: int) -> Iterator[tuple[str, str, str]]:
    prefix = _prefix(bits)
    for end in _WIDE:
        needed, lane = _needs_512(bits, end), _LANES[end]
        for kind, index in _INDICES.items():
            types = f"{lane}, {index}"
            yield needed, f"{prefix}_{kind}scatter_{end}", f"scatter<{types}>"
            yield needed, f"{prefix}_mask_{kind}scatter_{end}", f"mask_scatter<{types}>"
            if bits < 512:
                yield needed, f"{prefix}_mmask_{kind}gather_{end}", f"mask_gather_512<{types}>"
                continue
            vector = _vector(end, 256 if _is_half(kind, end) else bits)
            yield needed, f"{prefix}_{kind}gather_{end}", f"gather_512<{types}, {vector}>"
            yield needed, f"{prefix}_mask_{kind}gather_{end}", f"mask_gather_512<{types}>"


def _prefix(bits: int) -> str:
    return "_mm" if bits == 128 else f"_mm{bits}"


def _vector(end: str, bits: int) -> str:
    return f"__m{bits}" + {"ps": "", "pd": "d"}.get(end, "i")


def _is_half(indices: str, end: str) -> bool:
    """Whether there are half as many indices as four-byte elements in a vector, and so half a vector of these."""
    return indices == "i64" and end in ("ps", "epi32")


def _needs_512(bits: int, end: str) -> str:
    part = "F" if end in _WIDE else "BW"
    return f"defined(__AVX512{part}__)" + (" && defined(__AVX512VL__)" if bits < 512 else "")
