"""What an ELF file says of itself: its build id, and which function lies where."""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
from bisect import bisect_right
from functools import lru_cache

import numpy as np

_BUILD_ID = b"\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00"
"""Head of a note of type NT_GNU_BUILD_ID with 20 bytes."""
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("at", "<u8"), ("size", "<u8")]
)
_SHT_DYNSYM, _PT_LOAD, _STT_FUNC = 11, 1, 2


def build_id(file: str) -> str:
    """The build id that the linker has put into a library, or a digest of all of it where there is none."""
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(_BUILD_ID, 0, 1 << 16)
        if at >= 0:
            return content[at + len(_BUILD_ID) : at + len(_BUILD_ID) + 20].hex()
        return hashlib.sha256(content).hexdigest()


class Functions:
    """The exported functions of a library, by their places in the file."""

    def __init__(self, file: str):
        content = np.memmap(file, dtype=np.uint8, mode="r")
        header = content[:64].tobytes()
        program_at, section_at = struct.unpack_from("<QQ", header, 32)
        program_size, num_programs, section_size, num_sections = struct.unpack_from("<HHHH", header, 54)
        sections = [
            struct.unpack_from("<IIQQQQIIQQ", content[section_at + i * section_size :][:64].tobytes())
            for i in range(num_sections)
        ]
        symbols_at = next(section for section in sections if section[1] == _SHT_DYNSYM)
        names_at = sections[symbols_at[6]]
        self._names = content[names_at[4] : names_at[4] + names_at[5]]
        symbols = content[symbols_at[4] : symbols_at[4] + symbols_at[5]].view(_SYMBOL)
        symbols = symbols[(symbols["info"] & 15 == _STT_FUNC) & (symbols["section"] != 0)]
        self._symbols = symbols[np.argsort(symbols["at"])]
        self._offsets = self._symbols["at"].astype(np.int64)
        for i in range(num_programs):
            segment = content[program_at + i * program_size :][:56].tobytes()
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", segment)
            if kind == _PT_LOAD:
                inside = (self._symbols["at"] >= address) & (self._symbols["at"] < address + size)
                self._offsets[inside] += offset - address

    def at(self, offset: int) -> str | None:
        """Name of the function that an offset in the file lies in; None: of none that is exported."""
        index = bisect_right(self._offsets, offset) - 1
        if index < 0 or offset >= self._offsets[index] + int(self._symbols[index]["size"]):
            return None
        return self._name(index)

    def pages_of(self, pattern: re.Pattern[str]) -> set[int]:
        """Numbers of the pages with code of functions whose name matches."""
        found: set[int] = set()
        for index, (start, size) in enumerate(zip(self._offsets, self._symbols["size"], strict=True)):
            if pattern.fullmatch(self._name(index)):
                found |= set(range(int(start) // mmap.PAGESIZE, (int(start) + int(size) - 1) // mmap.PAGESIZE + 1))
        return found

    def _name(self, index: int) -> str:
        start = int(self._symbols[index]["name"])
        return readable(bytes(self._names[start : start + 500]).partition(b"\0")[0].decode())


def readable(name: str) -> str:
    """`at::_ops::mm::call` of a mangled name without templates; other names as they are."""
    parts = []
    rest = name.removeprefix("_ZNK").removeprefix("_ZN")
    while rest != name and (length := re.match(r"\d+", rest)):
        end = length.end() + int(length[0])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(parts) or name


@lru_cache(maxsize=4)
def functions(file: str) -> Functions | None:
    """The functions of a library; None: the file cannot be read as one."""
    try:
        return Functions(file)
    except (OSError, ValueError, struct.error, StopIteration):
        return None
