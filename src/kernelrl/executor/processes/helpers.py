"""Native helpers of the executor, compiled on the machine on which they run."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelrl.errors import InfrastructureError

WITHOUT = "do without by executor.sanitize=false (in curation curate.sanitize=false)"


def compiled_helper(cache: Path, name: str) -> Path:
    """The compiled `contest/<name>.c`: made once for this text and compiler, in a folder that holds nothing else.

    Raises:
        InfrastructureError: there is no C compiler, or it does not compile this.
    """
    source = Path(__file__).parents[1] / "contest" / f"{name}.c"
    return _compiled(cache, source, "{name}-{key}.so", ["-shared", "-fPIC"])


def confined_assembler(cache: Path) -> Path:
    """Folder of a program `as` that confines itself before it becomes the assembler of g++ (building/assembler.c).

    Raises:
        InfrastructureError: there is no assembler or no C compiler.
    """
    named = subprocess.run(["g++", "-print-prog-name=as"], capture_output=True, text=True).stdout.strip()
    path = shutil.which(named)
    if path is None:
        raise InfrastructureError(f"the assembler of g++, {named!r}, is not there; apt-get install binutils")
    assembler = Path(path).resolve()
    needed = subprocess.run(["ldd", str(assembler)], capture_output=True, text=True).stdout
    libraries = sorted(
        {str(Path(found).resolve()) for found in re.findall(r"(?:=> |^\s+)(/\S+)", needed, re.MULTILINE)}
    )
    texts = {"ASSEMBLER": json.dumps(str(assembler)), "READABLE": ", ".join(map(json.dumps, libraries)) or "ASSEMBLER"}
    source = Path(__file__).parents[1] / "building" / "assembler.c"
    return _compiled(cache, source, "{name}-{key}/as", [f"-D{name}={text}" for name, text in texts.items()]).parent


def _compiled(cache: Path, source: Path, place: str, flags: list[str]) -> Path:
    """A compiled source, at a `place` in the helpers' folder that its name and a key of all that it is made of give."""
    compiler = next((path for name in ("gcc", "cc", "g++") if (path := shutil.which(name))), None)
    if compiler is None:
        raise InfrastructureError("the executor needs a C compiler: g++ is not on PATH; apt-get install g++")
    key = hashlib.sha256(repr((source.read_bytes(), compiler, flags)).encode()).hexdigest()[:16]
    built = cache.resolve() / "helpers" / place.format(name=source.stem, key=key)
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            made = Path(folder) / built.name
            command = [compiler, "-x", "c", "-O2", *flags, "-o", str(made), str(source)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise InfrastructureError(f"{compiler} does not compile {source.name}:\n{done.stderr[-2000:]}")
            made.replace(built)
    return built


def sanitizers() -> list[str]:
    """The libraries of AddressSanitizer and UndefinedBehaviorSanitizer that come with g++.

    Raises:
        InfrastructureError: there are none.
    """
    found = []
    for name in ("libasan.so", "libubsan.so"):
        try:
            done = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True)
        except FileNotFoundError:
            raise InfrastructureError(f"g++ is not on PATH: apt-get install g++, or {WITHOUT}") from None
        path = Path(done.stdout.strip()).resolve()
        if not path.is_absolute() or not path.exists():
            raise InfrastructureError(f"g++ comes without {name} here: install its sanitizers, or {WITHOUT}")
        found.append(str(path))
    return found
