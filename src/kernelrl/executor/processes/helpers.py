"""Native helpers of the executor, compiled on the machine on which they run."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelrl.errors import InfrastructureError


def compiled_helper(cache: Path, name: str) -> Path:
    """The compiled `contest/<name>.c`: made once for this text and compiler, in a folder that holds nothing else.

    Raises:
        InfrastructureError: there is no C compiler, or it does not compile this.
    """
    source = Path(__file__).parents[1] / "contest" / f"{name}.c"
    compiler = next((path for name in ("gcc", "cc", "g++") if (path := shutil.which(name))), None)
    if compiler is None:
        raise InfrastructureError("the executor needs a C compiler: g++ is not on PATH; apt-get install g++")
    key = hashlib.sha256(source.read_bytes() + compiler.encode()).hexdigest()[:16]
    built = cache.resolve() / "helpers" / f"{name}-{key}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            made = Path(folder) / built.name
            command = [compiler, "-x", "c", "-O2", "-shared", "-fPIC", "-o", str(made), str(source)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise InfrastructureError(f"{compiler} does not compile {source.name}:\n{done.stderr[-2000:]}")
            made.replace(built)
    return built
