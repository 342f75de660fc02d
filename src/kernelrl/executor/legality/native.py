"""What a built module shows of the text that it came from: what the preprocessor and the linker have seen."""

from __future__ import annotations

from pathlib import Path

import re2

from kernelrl.dialects import _cpp_text
from kernelrl.executor.legality import symbols

MAX_EXPANDED_BYTES = 1 << 20
"""Length of a unit's text with its macros expanded."""
EXPANDING_KB = 1_000_000
"""Memory of the preprocessor that expands them (in KiB)."""
GAVE_UP = r"^cc1plus: |^virtual memory exhausted|: internal compiler error: |^[^ ]*g\+\+: fatal error: "
"""What it says of itself, and not of the text, when it did not come to the end."""
_SYMBOL = re2.compile(r" *\d+: [0-9a-f]+ .*? UND (.*?)(?: \(\d+\))?")
"""A symbol that the module does not define, as `readelf` says it: its name, and the number of its version."""
_WANTED_BY_ALL = b"__cxa_finalize"
"""A symbol of every module's: without it the others have not been read."""
BUILD_AND_LOOK = f"""\
if [ -e blank.cpp ]; then
  {{
    (ulimit -v {EXPANDING_KB}; g++ -w $(cat own_flags) -E -P blank.cpp 2>&1 >&3) |
      grep -Ea '{GAVE_UP}' | head -c 999 > end
  }} 3>&1 | head -c {MAX_EXPANDED_BYTES + 1} > expanded
  if grep -q "Killed signal" end; then exit 137; fi
  if [ $(stat -c %s expanded) -gt {MAX_EXPANDED_BYTES} ] || [ -s end ]; then
    echo "error: macros that expand to more than {MAX_EXPANDED_BYTES} characters"
    exit 1
  fi
fi
"$0" "$@" || exit $?
readelf -W --dyn-syms module.so | grep -a ' UND [^ ]' | head -c {symbols.MAX_BYTES} > mangled
(ulimit -v 1000000; ulimit -t 5; c++filt < mangled | head -c {symbols.MAX_BYTES} > symbols)
readelf -rW module.so | head -c {symbols.MAX_BYTES} > relocations
"""
"""Expand macros, compile, and list what the module wants from other libraries, in one confined process."""


def prepare(source: str, flags: list[str], work: Path) -> None:
    """What the preprocessor needs to expand the text's own macros and those of the flags, without what it includes."""
    if "define" in source or any(flag.startswith("-D") for flag in flags):
        (work / "blank.cpp").write_text(_cpp_text.without_includes(source), encoding="utf-8")
        own_flags = [flag for flag in flags if flag.startswith(("-D", "-U", "-std", "-f", "-m", "-O", "-pthread"))]
        (work / "own_flags").write_text(" ".join(own_flags))


def violations(source: str, work: Path, loader: str, cuda: bool) -> list[tuple[str, str]]:
    """Rules that the preprocessed text breaks, or its module by what it wants from libraries, with the evidence."""
    found = [("forbidden_include", include) for include in _cpp_text.forbidden_includes(source)]
    expanded = (work / "expanded").read_bytes() if (work / "blank.cpp").exists() else b""
    words = {
        word for text in (source, expanded.decode("utf-8", "replace")) for word, _ in _cpp_text.forbidden_words(text)
    }
    found += [("forbidden_cpp", word) for word in sorted(words)]
    texts = {name: (work / name).read_bytes() for name in ("mangled", "symbols", "relocations")}
    mangled, demangled = (texts[name].count(b"\n") for name in ("mangled", "symbols"))
    if mangled != demangled or max(map(len, texts.values())) >= symbols.MAX_BYTES:
        return [*found, ("library_symbol", f"names of more than {symbols.MAX_BYTES} characters")]
    read = [_SYMBOL.fullmatch(line) for line in texts["symbols"].decode("utf-8", "replace").splitlines()]
    if _WANTED_BY_ALL not in texts["mangled"] or not all(read):
        return [*found, ("library_symbol", "names that cannot be read")]
    wanted = [each[1] for each in read if each]
    found += [("library_symbol", symbol) for symbol in symbols.foreign(wanted, loader, cuda)]
    taken = symbols.foreign_addresses(texts["relocations"].decode("utf-8", "replace"))
    return [*found, *(("library_symbol", f"the address of {name}") for name in taken)]
