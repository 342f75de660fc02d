"""Plain PyTorch: a program of library operators, for work on algebra and fusion by hand (CUDA-L1 pays for it too).

No kernel is asked for, so operators of the library are not foul here. Everything else is as in the other dialects: no
dynamic code, no private attributes, no patched library, no deferred work.
"""

from __future__ import annotations

import ast

from kernelrl.dialects import Dialect, _python
from kernelrl.verdict import Violation

IMPORTS = _python.ALLOWED_IMPORTS | {"torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"}
DANGEROUS = frozenset(
    "torch compile jit load save hub ops library multiprocessing distributed cuda utils overrides manual_seed".split()
)
"""Parts of torch that run other code or change its global state, beside those whose names begin with `set_`."""


def find_violations(source: str) -> list[Violation]:
    """Rules of this dialect that the source breaks."""
    tree = ast.parse(source)
    found = _python.find_violations(tree, modules=set(), device_functions=set(), imports=IMPORTS)
    dangerous = [
        Violation(rule="forbidden_name", evidence=name, line=node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and (name := _dangerous(node))
    ]
    return [violation for violation in found if violation.rule != "library_call"] + dangerous


def _dangerous(node: ast.Attribute) -> str | None:
    name = _python.dotted(node) or ""
    head, _, rest = name.partition(".")
    part = rest.split(".")[0]
    return name if head == "torch" and (part in DANGEROUS or part.startswith("set_")) else None


EXAMPLE = """\
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x).mul_(2.0)
"""

DIALECT = Dialect("python", "plain PyTorch", find_violations, EXAMPLE)
