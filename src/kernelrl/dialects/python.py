"""Plain PyTorch: a program of library operators, for work on algebra and fusion by hand (CUDA-L1 pays for it too).

No kernel is asked for, so operators and layers of the library are allowed. Everything else is as in the other dialects:
the same small language, no dynamic code, no private attributes, no patched library, no deferred work.
"""

from __future__ import annotations

from kernelrl.dialects import Dialect, language
from kernelrl.verdict import Violation


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks."""
    return language.read(source, may_compute=True).violations


EXAMPLE = """\
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x).mul_(2.0)
"""

DIALECT = Dialect("python", "plain PyTorch", find_violations, EXAMPLE, may_compute=True)
