"""What an ELF file says of itself: its build id, which exported function lies where, and what its code consists of."""

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
_SHF_EXECINSTR, _PT_GNU_EH_FRAME = 4, 0x6474E550
_HEAD_OF_FRAMES = b"\x01\x1b\x03\x3b"
"""Version; encodings of the pointer to `.eh_frame`, of the count and of the sorted table, as all linkers write them."""
_WIDTHS = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}
"""Bytes of an address by its encoding (`DW_EH_PE_*`)."""


def build_id(file: str) -> str:
    """The build id that the linker has put into a library, or a digest of all of it where there is none."""
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(_BUILD_ID, 0, 1 << 16)
        if at >= 0:
            return content[at + len(_BUILD_ID) : at + len(_BUILD_ID) + 20].hex()
        return hashlib.sha256(content).hexdigest()


class _File:
    """The headers of a file (System V ABI, ELF-64)."""

    def __init__(self, file: str):
        self.content = np.memmap(file, dtype=np.uint8, mode="r")
        header = self.content[:64].tobytes()
        program_at, section_at = struct.unpack_from("<QQ", header, 32)
        program_size, num_programs, section_size, num_sections, names = struct.unpack_from("<HHHHH", header, 54)
        self.sections = [
            struct.unpack_from("<IIQQQQIIQQ", self.content[section_at + i * section_size :][:64].tobytes())
            for i in range(num_sections)
        ]
        """Of each the name, type, flags, address, offset, size, link, and three numbers more."""
        self.segments = [
            struct.unpack_from("<IIQQQQ", self.content[program_at + i * program_size :][:56].tobytes())
            for i in range(num_programs)
        ]
        """Of each the type, flags, offset, address, a number that nobody uses, and size in the file."""
        self.names_at = self.sections[names][4] if num_sections else 0

    def section_name(self, section: tuple[int, ...]) -> str:
        return _text(self.content, self.names_at + section[0])

    def offsets(self, addresses: np.ndarray) -> np.ndarray:
        """Places in the file of what is loaded at some addresses."""
        found = addresses.astype(np.int64)
        for kind, _, offset, address, _, size in self.segments:
            if kind == _PT_LOAD:
                found[(addresses >= address) & (addresses < address + size)] += offset - address
        return found


class Functions:
    """The exported functions of a library, by their places in the file."""

    def __init__(self, file: str):
        read = _File(file)
        symbols_at = next(section for section in read.sections if section[1] == _SHT_DYNSYM)
        names_at = read.sections[symbols_at[6]]
        self._names = read.content[names_at[4] : names_at[4] + names_at[5]]
        symbols = read.content[symbols_at[4] : symbols_at[4] + symbols_at[5]].view(_SYMBOL)
        symbols = symbols[(symbols["info"] & 15 == _STT_FUNC) & (symbols["section"] != 0)]
        self._symbols = symbols[np.argsort(symbols["at"])]
        self._offsets = read.offsets(self._symbols["at"])

    def at(self, offset: int) -> str | None:
        """Name of the function that an offset in the file lies in; None: of none that is exported."""
        index = bisect_right(self._offsets, offset) - 1
        if index < 0 or offset >= self._offsets[index] + int(self._symbols[index]["size"]):
            return None
        return self._name(index)

    def places_of(self, pattern: re.Pattern[str]) -> set[int]:
        """Where the functions begin whose name matches."""
        return {int(start) for index, start in enumerate(self._offsets) if pattern.fullmatch(self._name(index))}

    def _name(self, index: int) -> str:
        return readable(_text(self._names, int(self._symbols[index]["name"])))


class Code:
    """The code of a library, divided into functions, by their places in the file.

    Every function that can be unwound has an entry in `.eh_frame`, exported or not (Linux Standard Base, Core, 10.6).
    What lies between them (padding, assembly without such an entry) and the stubs of calls to other libraries are
    divided at the ends of pages.

    Raises:
        ValueError: it is divided in a way that this does not read.
    """

    def __init__(self, file: str):
        read = _File(file)
        code = [section for section in read.sections if section[2] & _SHF_EXECINSTR]
        self.sections = [(section[4], section[4] + section[5]) for section in code]
        """Where there is code and no data: a start and an end each."""
        stubs = [read.section_name(section).startswith(".plt") for section in code]
        functions = _functions_with_frames(read)
        spans = []
        for (start, end), is_stubs in zip(self.sections, stubs, strict=True):
            inside = functions[(functions[:, 1] > start) & (functions[:, 0] < end)].clip(start, end)
            spans.append(_divide(start, end, inside[:0] if is_stubs else inside))
        self.spans = np.concatenate(spans) if spans else functions[:0]
        """A start and an end each, sorted, without holes within a section: shape (functions, 2)."""
        self.spans = self.spans[np.argsort(self.spans[:, 0])]

    def at(self, offset: int) -> tuple[int, int] | None:
        """Start and end of the function that an offset in the file lies in; None: there is no code."""
        index = int(np.searchsorted(self.spans[:, 0], offset, side="right")) - 1
        if index < 0 or offset >= self.spans[index, 1]:
            return None
        return int(self.spans[index, 0]), int(self.spans[index, 1])


def _functions_with_frames(read: _File) -> np.ndarray:
    """Start and end of each function that `.eh_frame_hdr` lists, sorted, without overlap: shape (functions, 2)."""
    at = next((segment for segment in read.segments if segment[0] == _PT_GNU_EH_FRAME), None)
    if at is None:
        return np.zeros((0, 2), np.int64)
    _, _, offset, address, _, size = at
    header = read.content[offset : offset + size]
    if header[:4].tobytes() != _HEAD_OF_FRAMES:
        raise ValueError("its .eh_frame_hdr is of a kind that is not known")
    count = int(header[8:12].view("<u4")[0])
    table = header[12 : 12 + 8 * count].view("<i4").reshape(-1, 2).astype(np.int64) + address
    starts, frames = read.offsets(table[:, 0]), read.offsets(table[:, 1])
    owners = frames + 4 - _numbers(read.content, frames + 4, "<u4")
    lengths = np.zeros(count, np.int64)
    for owner in np.unique(owners):
        of_owner = owners == owner
        width = _width_of_addresses(read.content[owner : owner + 256].tobytes())
        lengths[of_owner] = _numbers(read.content, frames[of_owner] + 8 + width, f"<u{width}")
    ends = starts + lengths
    starts[1:] = np.maximum(starts[1:], np.maximum.accumulate(ends)[:-1])
    return np.stack([starts, ends], axis=1)[ends > starts]


def _numbers(content: np.ndarray, at: np.ndarray, dtype: str) -> np.ndarray:
    places = at[:, None] + np.arange(np.dtype(dtype).itemsize)
    return content[places].view(dtype)[:, 0].astype(np.int64)


def _width_of_addresses(entry: bytes) -> int:
    """How many bytes an address takes in the frames of a common information entry."""
    end = entry.index(b"\0", 9)
    augmentation, at = entry[9:end].decode(), end + 1
    for _ in range(4 if augmentation.startswith("z") else 3):  # two alignments, a register, a length
        at = _after_number(entry, at)
    encoding = 0
    for letter in augmentation.removeprefix("z"):
        if letter == "R":
            encoding = entry[at]
        at += {"R": 1, "L": 1, "P": 1}.get(letter, 0)
        if letter == "P":
            at += _WIDTHS[entry[at - 1] & 15]
    return _WIDTHS[encoding & 15]


def _after_number(entry: bytes, at: int) -> int:
    """Where a number in LEB128 ends."""
    while entry[at] & 128:
        at += 1
    return at + 1


def _divide(start: int, end: int, functions: np.ndarray) -> np.ndarray:
    """Functions, and what lies before, between and after them to the end of each page: shape (parts, 2)."""
    between = np.stack([np.r_[start, functions[:, 1]], np.r_[functions[:, 0], end]], axis=1)
    between = between[between[:, 1] > between[:, 0]]
    over_pages = between[:, 0] // mmap.PAGESIZE != (between[:, 1] - 1) // mmap.PAGESIZE
    parts = [functions, between[~over_pages]]
    for low, high in between[over_pages].tolist():
        cuts = np.arange(low // mmap.PAGESIZE + 1, -(-high // mmap.PAGESIZE)) * mmap.PAGESIZE
        parts.append(np.stack([np.r_[low, cuts], np.r_[cuts, high]], axis=1))
    return np.concatenate(parts)


def _text(content: np.ndarray, at: int) -> str:
    return bytes(content[at : at + 500]).partition(b"\0")[0].decode()


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


@lru_cache(maxsize=8)
def code(file: str) -> Code | None:
    """The code of a library; None: the file cannot be read as one."""
    try:
        return Code(file)
    except (OSError, ValueError, KeyError, struct.error):
        return None
